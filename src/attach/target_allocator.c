/* Finds the malloc that a program's calls lead to.
 *
 * Several modules may have one: libc, an allocator that was linked or preloaded, the
 * program itself. The loader takes the first in its own order, which stands in the
 * program's memory (r_debug): the program, what was preloaded, then the libraries.
 * What dlopen brought later comes after libc, so nobody's plugin is taken for it.
 *
 * All that is read here is the program's own to change: it can mislead heft about that
 * program, and nothing else. */
#include "attach/target_allocator.h"

#include "hosted/error.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINKS_MOST = 10000, AUXILIARY_MOST = 64 };

#define ENTRY_NAME(entry, function) #function,
const char *const target_entry_names[WIRE_BLOB_ENTRY_COUNT] = {WIRE_BLOB_ENTRIES(ENTRY_NAME)};
#undef ENTRY_NAME

/* The program's struct r_debug and struct link_map, as the ABI has them */
struct debug {
	uint64_t version, first;
};
struct link {
	uint64_t address, name, dynamic, next;
};

static ssize_t program_of(const struct target_modules *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].program)
			return (ssize_t)i;
	return -1;
}

/* Where the loader's list of modules begins; 0: there is none, the program is linked statically. */
static uint64_t first_link(const struct target_modules *m, size_t program)
{
	const struct target_image *im = &m->items[program].image;
	for (uint64_t i = 0; i < im->dynamic_bytes / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn d;
		struct debug debug;
		if (!target_modules_memory(m, im->bias + im->dynamic + i * sizeof d, &d,
					   sizeof d) ||
		    d.d_tag == DT_NULL)
			return 0;
		if (d.d_tag == DT_DEBUG)
			return target_modules_memory(m, d.d_un.d_ptr, &debug, sizeof debug)
				       ? debug.first
				       : 0;
	}
	return 0;
}

static bool has_allocator(const struct target_modules *m, size_t module, struct target_allocator *a,
			  struct heft_error *err)
{
	if (target_functions(m, module, target_entry_names, a->functions, WIRE_BLOB_ENTRY_COUNT,
			     err))
		return false;
	a->module = module;
	/* A function of the same name that the module keeps to itself is not the one that is called. */
	for (unsigned i = 0; i < WIRE_BLOB_ENTRY_COUNT; i++)
		if (!a->functions[i].exported)
			a->functions[i].address = 0;
	return a->functions[WIRE_BLOB_MALLOC].address && a->functions[WIRE_BLOB_FREE].address &&
	       a->functions[WIRE_BLOB_CALLOC].address && a->functions[WIRE_BLOB_REALLOC].address;
}

static bool is_called(const struct target_module *module, const char *start)
{
	const char *slash = strrchr(module->path, '/');
	return !strncmp(slash ? slash + 1 : module->path, start, strlen(start));
}

/* One function may have two names: its entry is changed once. */
static void drop_aliases(struct target_allocator *a)
{
	for (int i = 1; i < WIRE_BLOB_ENTRY_COUNT; i++)
		for (int k = 0; k < i; k++)
			if (a->functions[k].address == a->functions[i].address)
				a->functions[i].address = 0;
}

/* dlclose is libc's, whoever has malloc. */
static void take_dlclose(struct target_allocator *a, const struct target_modules *m)
{
	struct target_function *f = &a->functions[WIRE_BLOB_DLCLOSE];
	const char *const name[] = {"dlclose"};
	struct heft_error ignored;
	for (size_t i = 0; i < m->count && !f->address; i++)
		if (is_called(&m->items[i], "libc."))
			target_functions(m, i, name, f, 1, &ignored);
}

/* A static program that can be moved (static-pie) has a list of modules as well, with itself in it. */
static bool has_loader(const struct target_modules *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (is_called(&m->items[i], "ld-"))
			return true;
	return false;
}

int target_allocator_find(struct target_allocator *a, const struct target_modules *m,
			  struct heft_error *err)
{
	ssize_t program = program_of(m);
	uint64_t at = program < 0 ? 0 : first_link(m, (size_t)program);
	struct heft_error why = {0};
	struct link link;
	memset(a, 0, sizeof *a);
	for (size_t i = 0; i < m->count; i++)
		if (is_called(&m->items[i], "libheft-preload."))
			return heft_fail(err, HEFT_EREFUSED,
					 "process %d was started with heft: its allocations are "
					 "seen already\n"
					 "heft top %d shows them.",
					 m->pid, m->pid);
	if (!at || !has_loader(m))
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d is linked statically: heft cannot attach to it yet",
				 m->pid);
	for (unsigned i = 0; at && i < LINKS_MOST; i++, at = link.next) {
		if (!target_modules_memory(m, at, &link, sizeof link))
			break;
		ssize_t module = target_module_at(m, link.dynamic);
		if (module < 0 || is_called(&m->items[module], "ld-linux"))
			continue;
		if (has_allocator(m, (size_t)module, a, &why)) {
			drop_aliases(a);
			take_dlclose(a, m);
			return 0;
		}
	}
	return heft_fail(err, HEFT_EREFUSED, "process %d has no malloc that heft can find%s%s",
			 m->pid, why.message[0] ? ": " : "", why.message);
}

/* ---- what is around */

static void take_auxiliary(struct wire_blob *shared, pid_t pid)
{
	char path[64];
	uint64_t words[AUXILIARY_MOST * 2] = {0};
	snprintf(path, sizeof path, "/proc/%d/auxv", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, words, sizeof words);
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i + 1 < n / 8; i += 2)
		switch (words[i]) {
		case AT_PHDR: shared->phdr = words[i + 1]; break;
		case AT_PHNUM: shared->phnum = words[i + 1]; break;
		case AT_RANDOM: shared->random = words[i + 1]; break;
		default: break;
		}
}

/* How much lies between the end of a thread's stack and its thread pointer: the modules' thread-local memory. */
static uint64_t thread_local_bytes(const struct target_modules *m)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct target_image *im = &m->items[i].image;
		const Elf64_Ehdr *eh = (const Elf64_Ehdr *)im->header;
		for (unsigned k = 0; k < eh->e_phnum; k++) {
			uint64_t at = eh->e_phoff + k * sizeof(Elf64_Phdr);
			Elf64_Phdr ph;
			if (at + sizeof ph > im->header_bytes)
				break;
			memcpy(&ph, im->header + at, sizeof ph);
			if (ph.p_type == PT_TLS && ph.p_memsz < 1 << 26 && ph.p_align < 1 << 20)
				sum += ph.p_memsz + ph.p_align;
		}
	}
	return sum;
}

/* Where its first thread's stack began, which is what libc takes for its end. The 28th field, counted from behind
 * the name, which may hold anything. */
static uint64_t stack_end(pid_t pid)
{
	enum { BEHIND_NAME = 3, START_STACK = 28 };
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	char *at = strrchr(text, ')');
	for (int field = BEHIND_NAME; at && field <= START_STACK; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

int target_describe(struct wire_blob *shared, const struct target_modules *m,
		    const struct target_allocator *a, struct heft_error *err)
{
	static const char *const names[] = {"_dl_find_object", "gnu_get_libc_version"};
	struct target_function found[2];
	uint64_t usable, bytes;
	struct heft_error ignored;
	char path[64];
	for (size_t i = 0; i < m->count; i++) {
		if (i != a->module && !is_called(&m->items[i], "libc.") &&
		    !is_called(&m->items[i], "ld-linux"))
			continue;
		if (target_functions(m, i, names, found, 2, &ignored))
			continue;
		if (found[0].address)
			shared->find_object = found[0].address;
		if (i == a->module)
			shared->is_glibc = found[1].address != 0;
	}
	if (!shared->find_object)
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d has a C library that heft does not know: heft attach "
				 "needs glibc 2.35 or later\n"
				 "Start it with heft run.",
				 m->pid);
	shared->own_low = UINT64_MAX;
	for (unsigned i = 0; i < WIRE_BLOB_ENTRY_COUNT; i++) {
		const struct target_function *f = &a->functions[i];
		if (!f->address || i == WIRE_BLOB_DLCLOSE)
			continue;
		shared->own_low = f->address < shared->own_low ? f->address : shared->own_low;
		if (f->address + f->bytes > shared->own_high)
			shared->own_high = f->address + f->bytes;
	}
	if (!target_symbol(m, a->module, "malloc_usable_size", &usable, &bytes, &ignored))
		shared->usable = usable;
	take_auxiliary(shared, m->pid);
	shared->stack_end = stack_end(m->pid);
	shared->thread_local_bytes = thread_local_bytes(m);
	snprintf(path, sizeof path, "/proc/%d/exe", m->pid);
	ssize_t n = readlink(path, shared->exe, sizeof shared->exe - 1);
	shared->exe[n < 0 ? 0 : n] = 0;
	return 0;
}
