/* Asking for a look (look_call.h). The session file of an exactly recorded process has no name any more as soon as its
 * recorder has it, so nobody else can open it. But the process has it mapped, and who may trace the process may write
 * to its memory: a number in the header grows by one, and the recorder, which sees the same page, answers with that
 * number.
 *
 * Everything that is read there is the process's to forge: it is used for nothing but to wait. */
#include "session/look_call.h"

#include "session/mappings.h"
#include "session/session_dir.h"
#include "wire/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 2, SILENT_MS = 10000 /* without a sign of life */, LONGEST_MS = 600000 };

/* The header of its session file, in its memory */
struct remote {
	int memory;
	uint64_t at;
};

static bool read_word(const struct remote *r, size_t offset, uint32_t *value)
{
	return pread(r->memory, value, sizeof *value, (off_t)(r->at + offset)) == sizeof *value;
}

uint64_t look_call_header(FILE *f)
{
	char line[PATH_MAX + 256];
	uint64_t found = 0, newest = 0;
	while (mappings_line(f, line, sizeof line)) {
		static const char deleted[] = " (deleted)";
		struct mapping m;
		uint64_t start, offset, stamp;
		int32_t named;
		if (!mappings_parse(line, &m) ||
		    sscanf(line, "%" SCNx64 "-%*x %*s %" SCNx64, &start, &offset) != 2 || offset)
			continue;
		char *name = strrchr(line + m.path, '/'), *end = line + strlen(line);
		if (end - (line + m.path) > (ptrdiff_t)sizeof deleted &&
		    !strcmp(end - (sizeof deleted - 1), deleted))
			end[-(ptrdiff_t)(sizeof deleted - 1)] = 0;
		if (name && session_file_name(name + 1, &named, &stamp) && stamp >= newest) {
			found = start;
			newest = stamp;
		}
	}
	return found;
}

static bool is_recorded_exactly(const struct remote *r)
{
	uint64_t magic = 0;
	uint32_t version = 0, mode = 0, state = 0;
	bool fine = pread(r->memory, &magic, sizeof magic, (off_t)r->at) == sizeof magic &&
		    read_word(r, offsetof(struct wire_header, version), &version) &&
		    read_word(r, offsetof(struct wire_header, mode), &mode) &&
		    read_word(r, offsetof(struct wire_header, state), &state);
	return fine && magic == WIRE_MAGIC && version == WIRE_VERSION && mode == WIRE_EXACT &&
	       state == WIRE_ON;
}

static int check_looked(const struct remote *r, pid_t pid, uint32_t wanted, struct heft_error *err)
{
	uint32_t looked = 0;
	return read_word(r, offsetof(struct wire_header, ledger.looked), &looked) &&
			       looked == wanted
		       ? 0
		       : heft_fail(err, HEFT_EREFUSED,
				   "the heft that records process %d cannot look at it now: it may "
				   "be "
				   "traced, its threads may not stop, or the recording is full",
				   (int)pid);
}

static int ask(const struct remote *r, pid_t pid, unsigned silent_ms, struct heft_error *err)
{
	const size_t wanted_at = offsetof(struct wire_header, ledger.wanted);
	uint32_t wanted = 0, answered, progress, before = 0;
	if (!read_word(r, wanted_at, &wanted))
		return heft_fail(err, HEFT_EREFUSED, "process %d has ended", (int)pid);
	wanted++;
	if (pwrite(r->memory, &wanted, sizeof wanted, (off_t)(r->at + wanted_at)) != sizeof wanted)
		return heft_fail_errno(err, "cannot write to the memory of process %d", (int)pid);
	unsigned silent = 0;
	for (unsigned all = 0; silent < silent_ms && all < LONGEST_MS; all += LOOK_MS) {
		if (!read_word(r, offsetof(struct wire_header, ledger.answered), &answered) ||
		    !read_word(r, offsetof(struct wire_header, progress), &progress) ||
		    (kill(pid, 0) && errno == ESRCH))
			return heft_fail(err, HEFT_EREFUSED, "process %d has ended", (int)pid);
		if (answered == wanted)
			return check_looked(r, pid, wanted, err);
		silent = progress != before ? 0 : silent + LOOK_MS;
		before = progress;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
	}
	return heft_fail(err, HEFT_EREFUSED, "the heft that records process %d does not answer",
			 (int)pid);
}

int look_call_memory(int memory, uint64_t at, pid_t pid, unsigned silent_ms, struct heft_error *err)
{
	const struct remote r = {memory, at};
	return memory >= 0 && is_recorded_exactly(&r)
		       ? ask(&r, pid, silent_ms, err)
		       : heft_fail(err, HEFT_ENOTFOUND, "process %d is not recorded", (int)pid);
}

int look_call(pid_t pid, struct heft_error *err)
{
	char path[64];
	FILE *maps = mappings_open(pid);
	uint64_t at = maps ? look_call_header(maps) : 0;
	snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
	int memory = at ? open(path, O_RDWR | O_CLOEXEC) : -1;
	int rc = look_call_memory(memory, at, pid, SILENT_MS, err);
	if (memory >= 0)
		close(memory);
	if (maps)
		fclose(maps);
	return rc;
}
