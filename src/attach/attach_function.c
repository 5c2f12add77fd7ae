/* Functions that the user names as ones of an allocator (--alloc-fn=NAME:KIND): what
 * each kind takes and gives. */
#include "attach/attach.h"

#include "attach/target_allocator.h"
#include "wire/via.h"

#include <stdio.h>
#include <string.h>

static const struct kind {
	const char *name;
	struct target_named means; /* but for the function's name */
} kinds[] = {
	{"malloc", {NULL, WIRE_BLOB_OWN_ALLOCATE, 1, 0, 0, WIRE_VIA_MALLOC}},
	{"calloc", {NULL, WIRE_BLOB_OWN_ALLOCATE, 2, 1, 0, WIRE_VIA_CALLOC}},
	{"realloc", {NULL, WIRE_BLOB_OWN_REALLOCATE, 2, 0, 1, WIRE_VIA_REALLOC}},
	{"reallocarray", {NULL, WIRE_BLOB_OWN_REALLOCATE, 3, 2, 1, WIRE_VIA_REALLOCARRAY}},
	{"memalign", {NULL, WIRE_BLOB_OWN_ALLOCATE, 2, 0, 0, WIRE_VIA_MEMALIGN}},
	{"posix_memalign", {NULL, WIRE_BLOB_OWN_POSIX_MEMALIGN, 3, 0, 0, WIRE_VIA_POSIX_MEMALIGN}},
	{"free", {NULL, WIRE_BLOB_OWN_FREE, 0, 0, 1, WIRE_VIA_FREE}},
	{"free_sized", {NULL, WIRE_BLOB_OWN_FREE, 0, 0, 1, WIRE_VIA_FREE}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

int attach_functions_add(struct attach_functions *f, const char *text, struct heft_error *err)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	if (f->count == ATTACH_FUNCTIONS)
		return heft_fail(err, HEFT_EUSAGE, "too many --alloc-fn: at most %d",
				 ATTACH_FUNCTIONS);
	struct attach_function *out = &f->items[f->count];
	for (unsigned i = 0; colon && i < KINDS; i++)
		if (!strcmp(colon + 1, kinds[i].name) && length && length < sizeof out->name) {
			memcpy(out->name, text, length);
			out->name[length] = 0;
			out->kind = i;
			f->count++;
			return 0;
		}
	return heft_fail(err, HEFT_EUSAGE,
			 "'%s' is no function and its kind: say NAME:malloc, or calloc, realloc, "
			 "reallocarray, memalign, posix_memalign, free, free_sized",
			 text);
}

void attach_function_meaning(const struct attach_function *f, struct target_named *out)
{
	*out = kinds[f->kind < KINDS ? f->kind : 0].means;
	out->name = f->name;
}
