/* Fuzzes asking for a look: the mappings and the header of a session file are those of a process, which may forge both. The
 * input is flags, the length of the mappings' text (2 bytes), that text, and the header. With the first flag the header is one
 * of an exactly recorded process, with the second it was answered already, and with the third that worked. Whatever it is,
 * nothing waits long, and of the process's memory only the one number is changed. */
#include "hosted/error.h"
#include "session/look_call.h"
#include "wire/session.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGEST = 16 << 10, SILENT_MS = 1, RIGHT = 1, ANSWERED = 2, LOOKED = 4 };

static void put(int memory, uint64_t at, uint32_t value)
{
	if (pwrite(memory, &value, sizeof value, (off_t)at) != sizeof value)
		abort();
}

static uint32_t get(int memory, uint64_t at)
{
	uint32_t value = 0;
	if (pread(memory, &value, sizeof value, (off_t)at) < 0)
		abort();
	return value;
}

/* As a recorder would answer the next question */
static void mend(int memory, uint64_t at, unsigned flags)
{
	const uint64_t magic = WIRE_MAGIC, ledger = at + offsetof(struct wire_header, ledger);
	const uint64_t wanted = ledger + offsetof(struct wire_ledger, wanted);
	if (flags & RIGHT) {
		if (pwrite(memory, &magic, sizeof magic, (off_t)at) != sizeof magic)
			abort();
		put(memory, at + offsetof(struct wire_header, version), WIRE_VERSION);
		put(memory, at + offsetof(struct wire_header, mode), WIRE_EXACT);
		put(memory, at + offsetof(struct wire_header, state), WIRE_ON);
	}
	if (flags & ANSWERED)
		put(memory, ledger + offsetof(struct wire_ledger, answered),
		    get(memory, wanted) + 1);
	if (flags & LOOKED)
		put(memory, ledger + offsetof(struct wire_ledger, looked), get(memory, wanted) + 1);
}

static void ask(uint64_t at, unsigned flags, const uint8_t *header, size_t size)
{
	static uint8_t before[sizeof(struct wire_header)], after[sizeof(struct wire_header)];
	const size_t wanted = offsetof(struct wire_header, ledger.wanted);
	struct heft_error err = {0};
	int memory = memfd_create("fuzz", MFD_CLOEXEC);
	size = size < sizeof before ? size : sizeof before;
	if (memory < 0 || pwrite(memory, header, size, (off_t)at) != (ssize_t)size)
		abort();
	mend(memory, at, flags);
	memset(before, 0, sizeof before);
	memset(after, 0, sizeof after);
	if (pread(memory, before, sizeof before, (off_t)at) < 0)
		abort();
	int rc = look_call_memory(memory, at, getpid(), SILENT_MS, &err);
	if (pread(memory, after, sizeof after, (off_t)at) < 0 || rc > 0)
		abort();
	if (rc && (!err.message[0] || !memchr(err.message, 0, sizeof err.message)))
		abort();
	if (rc == 0 && memcmp(after + wanted, after + offsetof(struct wire_header, ledger.looked),
			      sizeof(uint32_t)) != 0)
		abort();
	if ((flags & (RIGHT | ANSWERED | LOOKED)) == (RIGHT | ANSWERED | LOOKED) && rc)
		abort();
	memcpy(after + wanted, before + wanted, sizeof(uint32_t));
	if (memcmp(before, after, sizeof before) != 0)
		abort();
	close(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint16_t length;
	if (size < 4 || size > LARGEST)
		return 0;
	unsigned flags = data[0];
	memcpy(&length, data + 1, sizeof length);
	data += 3;
	size -= 3;
	length = length && length <= size ? length : (uint16_t)size;
	FILE *maps = fmemopen((void *)data, length, "r");
	if (!maps)
		abort();
	uint64_t at = look_call_header(maps);
	fclose(maps);
	if (at && !memchr(data, '/', length))
		abort();
	/* Memory is a file, and that cannot be as large as an address space. */
	ask(at < UINT64_C(1) << 47 ? at : 0, flags, data + length, size - length);
	return 0;
}

#include "fuzz_corpus.h"
