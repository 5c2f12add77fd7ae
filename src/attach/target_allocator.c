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

#include "attach/target_links.h"
#include "hosted/error.h"
#include "hosted/proc_text.h"
#include "symbol/symbol_facts.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { LINKS_MOST = 10000 };

#define FUNCTION_NAME(entry, function) #function,
static const char *const function_names[WIRE_BLOB_FUNCTION_COUNT] = {
	WIRE_BLOB_FUNCTIONS(FUNCTION_NAME)};
#undef FUNCTION_NAME

/* The program's struct r_debug and struct link_map, as the ABI has them */
struct debug {
	uint64_t version, first;
};
struct link {
	uint64_t address, name, dynamic, next;
};

/* Where the loader's list of modules begins; 0: there is none. */
static uint64_t first_link(const struct target_modules *m)
{
	struct debug debug = {0};
	uint64_t at = target_debug(m);
	return at && target_modules_memory(m, at, &debug, sizeof debug) ? debug.first : 0;
}

bool target_is_called(const struct target_module *module, const char *start)
{
	const char *slash = strrchr(module->path, '/');
	return !strncmp(slash ? slash + 1 : module->path, start, strlen(start));
}

bool target_is_of_libc(uint32_t hook)
{
	return hook >= WIRE_BLOB_DLCLOSE && hook < WIRE_BLOB_FUNCTION_COUNT;
}

void target_allocator_add(struct target_allocator *a, const struct target_entry *e)
{
	for (size_t i = 0; i < a->count; i++)
		if (e->function.address && a->entries[i].function.address == e->function.address)
			return;
	if (a->count == WIRE_BLOB_ENTRIES)
		return;
	struct target_own *own = &a->own[e->wire.allocator];
	uint64_t end = e->function.address + e->function.bytes;
	a->entries[a->count++] = *e;
	if (target_is_of_libc(e->wire.hook) || e->refused[0])
		return;
	own->low = own->functions && own->low < e->function.address ? own->low
								    : e->function.address;
	own->high = own->functions && own->high > end ? own->high : end;
	own->functions++;
}

static void add_function(struct target_allocator *a, size_t module, enum wire_blob_hook hook,
			 const struct target_function *f, uint64_t usable)
{
	struct target_entry e = {
		.function = *f, .module = module, .wire = {.hook = hook, .usable = usable}};
	snprintf(e.name, sizeof e.name, "%s", function_names[hook]);
	if (f->address)
		target_allocator_add(a, &e);
}

/* alone: there is no other module. */
static bool has_allocator(const struct target_modules *m, size_t module, bool alone,
			  struct target_allocator *a, struct heft_error *err)
{
	struct target_function functions[WIRE_BLOB_FUNCTION_COUNT];
	struct heft_error ignored;
	uint64_t usable, bytes;
	/* A browser or node has a hundred thousand symbols, and no malloc. */
	if (!alone && !target_may_export(m, module, "malloc"))
		return false;
	if (target_functions(m, module, function_names, functions, WIRE_BLOB_FUNCTION_COUNT, err))
		return false;
	/* A function of the same name that the module keeps to itself is not the one that is called. */
	for (unsigned i = 0; i < WIRE_BLOB_FUNCTION_COUNT; i++)
		if (!alone && !functions[i].exported)
			functions[i].address = 0;
	/* A static program has only those that somebody calls. */
	if (!functions[WIRE_BLOB_MALLOC].address || !functions[WIRE_BLOB_FREE].address ||
	    (!alone &&
	     (!functions[WIRE_BLOB_CALLOC].address || !functions[WIRE_BLOB_REALLOC].address)))
		return false;
	if (target_symbol(m, module, "malloc_usable_size", &usable, &bytes, &ignored))
		usable = 0;
	a->module = module;
	a->own_count = 1;
	a->own[0] = (struct target_own){.module = module, .name = "malloc", .usable = usable};
	for (unsigned i = 0; i <= WIRE_BLOB_DLCLOSE; i++)
		add_function(a, module, i, &functions[i], usable);
	return true;
}

/* dlclose is libc's, whoever has malloc. */
static void take_dlclose(struct target_allocator *a, const struct target_modules *m)
{
	struct target_function f = {0};
	const char *const name[] = {"dlclose"};
	struct heft_error ignored;
	for (size_t i = 0; i < m->count && !f.address; i++)
		if (target_is_called(&m->items[i], "libc.") &&
		    !target_functions(m, i, name, &f, 1, &ignored))
			add_function(a, i, WIRE_BLOB_DLCLOSE, &f, 0);
}

void target_add_execs(struct target_allocator *a, const struct target_modules *m)
{
	enum { FIRST = WIRE_BLOB_EXECVE, COUNT = WIRE_BLOB_FUNCTION_COUNT - FIRST };
	const bool alone = !target_auxiliary(m->pid, AT_BASE);
	struct target_function found[COUNT];
	struct heft_error ignored;
	for (size_t i = 0; i < m->count; i++) {
		if (alone ? !m->items[i].program
			  : !target_is_called(&m->items[i], "libc.") &&
				    !target_is_called(&m->items[i], "ld-musl"))
			continue;
		if (target_functions(m, i, function_names + FIRST, found, COUNT, &ignored))
			continue;
		for (unsigned k = 0; k < COUNT; k++)
			if (alone || found[k].exported)
				add_function(a, i, FIRST + k, &found[k], 0);
	}
}

static bool is_go(const struct target_modules *m)
{
	struct symbol_facts facts;
	char path[40];
	snprintf(path, sizeof path, "/proc/%d/exe", m->pid);
	return symbol_facts_of(path, &facts) && facts.go;
}

static int go_alone(const struct target_modules *m, struct heft_error *err)
{
	return heft_fail(err, HEFT_EREFUSED,
			 "process %d is a Go program without cgo: its heap is not malloc's\n"
			 "Import net/http/pprof in it; heft report reads what its "
			 "/debug/pprof/heap gives.",
			 m->pid);
}

static int find_in_static(struct target_allocator *a, const struct target_modules *m,
			  struct heft_error *err)
{
	ssize_t program = target_program(m);
	struct heft_error why = {0};
	if (program >= 0 && has_allocator(m, (size_t)program, true, a, &why))
		return 0;
	if (is_go(m))
		return go_alone(m, err);
	return heft_fail(err, HEFT_EREFUSED,
			 "process %d is linked statically, and its file does not name its malloc\n"
			 "Link it without -s, or do not strip it.",
			 m->pid);
}

int target_allocator_find(struct target_allocator *a, const struct target_modules *m,
			  struct heft_error *err)
{
	uint64_t at = first_link(m);
	struct heft_error why = {0};
	struct link link;
	memset(a, 0, sizeof *a);
	for (size_t i = 0; i < m->count; i++)
		if (target_is_called(&m->items[i], "libheft-preload."))
			return heft_fail(err, HEFT_EREFUSED,
					 "process %d was started with heft: its allocations are "
					 "seen already\n"
					 "heft top %d shows them.",
					 m->pid, m->pid);
	/* A static program that can be moved (static-pie) has a list of modules as well, with itself in it. */
	if (!target_auxiliary(m->pid, AT_BASE))
		return find_in_static(a, m, err);
	for (unsigned i = 0; at && i < LINKS_MOST; i++, at = link.next) {
		if (!target_modules_memory(m, at, &link, sizeof link))
			break;
		ssize_t module = target_module_at(m, link.dynamic);
		if (module < 0 || target_is_called(&m->items[module], "ld-linux"))
			continue;
		if (has_allocator(m, (size_t)module, false, a, &why)) {
			take_dlclose(a, m);
			return 0;
		}
	}
	if (!why.message[0] && is_go(m))
		return go_alone(m, err);
	return heft_fail(err, HEFT_EREFUSED, "process %d has no malloc that heft can find%s%s",
			 m->pid, why.message[0] ? ": " : "", why.message);
}

/* ---- what is around */

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

/* Where its first thread's stack began, which is what libc takes for its end. */
static uint64_t stack_end(pid_t pid)
{
	char text[1024];
	proc_text(text, sizeof text, "/proc/%d/stat", pid);
	const char *at = proc_stat_field(text, STAT_START_STACK);
	return at ? strtoull(at, NULL, 10) : 0;
}

static struct wire_blob_allocator allocator_in(const struct target_modules *m,
					       const struct target_own *own)
{
	const struct target_module *module = &m->items[own->module];
	const struct target_mapping *at = &m->maps.items[module->mapping];
	/* A library that is an allocator has nothing else. */
	bool whole = !module->program && own->functions && !target_is_called(module, "libc.");
	return (struct wire_blob_allocator){whole ? module->low : own->low,
					    whole ? module->high : own->high,
					    makedev(at->device_major, at->device_minor), at->inode};
}

/* glibc's malloc is one piece wherever it is linked in, but for this function. */
static void take_linked_range(struct wire_blob *shared, const struct target_allocator *a)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct target_entry *e = &a->entries[i];
		uint64_t low = e->function.address, high = low + e->function.bytes;
		if (e->wire.allocator || e->wire.hook >= WIRE_BLOB_REALLOCARRAY || e->refused[0])
			continue;
		shared->own_low = shared->own_low && shared->own_low < low ? shared->own_low : low;
		shared->own_high = shared->own_high > high ? shared->own_high : high;
	}
}

void target_describe(struct wire_blob *shared, const struct target_modules *m,
		     const struct target_allocator *a)
{
	/* The last one is found where libc has its symbols: linked in. */
	static const char *const names[] = {"_dl_find_object", "gnu_get_libc_version",
					    "_int_malloc"};
	struct target_function found[3];
	const bool has_loader = target_auxiliary(m->pid, AT_BASE) != 0;
	struct heft_error ignored;
	char path[64];
	for (size_t i = 0; i < m->count; i++) {
		if (i != a->module && !target_is_called(&m->items[i], "libc.") &&
		    !target_is_called(&m->items[i], "ld-linux"))
			continue;
		if (target_functions(m, i, names, found, 3, &ignored))
			continue;
		if (found[0].address && has_loader)
			shared->find_object = found[0].address;
		if (i == a->module)
			shared->is_glibc = found[1].address || found[2].address;
	}
	for (size_t i = 0; i < a->count; i++)
		shared->program_hooked |= m->items[a->entries[i].module].program &&
					  !a->entries[i].refused[0];
	shared->allocator_count = (uint32_t)a->own_count;
	for (size_t i = 0; i < a->own_count; i++)
		shared->allocators[i] = allocator_in(m, &a->own[i]);
	/* An operator new that has no memory makes an exception, and catches it if it must not throw. */
	for (size_t i = 0; i < m->count && shared->allocator_count < WIRE_BLOB_ALLOCATORS; i++)
		if (target_is_called(&m->items[i], "libstdc++.") ||
		    target_is_called(&m->items[i], "libc++abi."))
			shared->allocators[shared->allocator_count++] =
				(struct wire_blob_allocator){m->items[i].low, m->items[i].high, 0,
							     0};
	/* The program's own code may lie between functions that the linker has put into it. */
	if (!m->items[a->module].program) {
		shared->own_low = a->own[0].low;
		shared->own_high = a->own[0].high;
	} else if (shared->is_glibc)
		take_linked_range(shared, a);
	shared->phdr = target_auxiliary(m->pid, AT_PHDR);
	shared->phnum = target_auxiliary(m->pid, AT_PHNUM);
	shared->random = target_auxiliary(m->pid, AT_RANDOM);
	shared->stack_end = stack_end(m->pid);
	shared->thread_local_bytes = thread_local_bytes(m);
	snprintf(path, sizeof path, "/proc/%d/exe", m->pid);
	ssize_t n = readlink(path, shared->exe, sizeof shared->exe - 1);
	shared->exe[n < 0 ? 0 : n] = 0;
}
