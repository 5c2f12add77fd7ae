/* Fuzzes what is read from the memory of a program: headers and exported symbols of a module, and a near page that
 * another heft may have left. The input is that memory, from an address on; behind it nothing is mapped. */
#include "attach/near_page.h"
#include "attach/target_dynsym.h"
#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>

#define BASE UINT64_C(0x7f0000000000)

struct memory {
	const uint8_t *data;
	size_t size;
	size_t names;
};

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	const struct memory *m = context;
	if (at < BASE || at - BASE > m->size || bytes > m->size - (at - BASE))
		return false;
	memcpy(to, m->data + (at - BASE), bytes);
	return true;
}

static void see(void *context, const struct image_symbol *symbol)
{
	struct memory *m = context;
	m->names += strlen(symbol->name);
}

static void load_page(const uint8_t *data, size_t size)
{
	struct near_page page;
	struct heft_error err;
	uint64_t at = BASE;
	/* Where it says that it is */
	if (size >= sizeof(struct near_header))
		memcpy(&at, data + offsetof(struct near_header, at), sizeof at);
	if (near_page_load(&page, data, size, at, &err) < 0)
		return;
	uint8_t jump[JUMP_BYTES];
	for (unsigned i = 0; i < near_page_count(&page); i++) {
		const struct near_entry *e = near_page_entry(&page, i);
		near_page_jump(&page, i, jump);
		if (jump_target(jump, e->at) != near_page_trampoline(&page, i))
			abort();
		for (uint64_t pc = 0; pc < RELOCATE_COPY_MOST; pc++) {
			near_page_pc(&page, e->at + pc);
			near_page_back(&page, near_page_copy(&page, i) + pc);
		}
	}
	near_page_fini(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory m = {.data = data, .size = size};
	const struct target_memory memory = {read_memory, &m};
	static struct target_image im;
	if (size > 1 << 20)
		return 0;
	if (target_image_read(&im, &memory, BASE)) {
		if (im.segment_count > TARGET_IMAGE_SEGMENTS ||
		    im.build_id_len > TARGET_BUILD_ID_MOST || im.header_bytes > TARGET_HEADER_BYTES)
			abort();
		target_dynsym_each(&im, &memory, see, &m);
		target_image_code(&im, BASE);
	}
	load_page(data, size);
	return 0;
}

#include "fuzz_corpus.h"
