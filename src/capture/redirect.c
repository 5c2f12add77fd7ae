/* Libraries that are loaded with RTLD_DEEPBIND look their symbols up in their own
 * dependencies first, so they find libc's malloc and not ours. We redirect the slots
 * (GOT entries) through which they call the functions that we stand in for.
 *
 * When: we do not interpose dlopen, since the loader searches RUNPATH and $ORIGIN of
 * the object that called it. Instead we export __gmon_start__. The start-up code that
 * is linked into every ordinary library (crti.o: _init) calls that function if there
 * is one, after the library was relocated and before its constructors run, in the
 * thread that loads it. So no code of the library has run yet, and nobody can unload
 * it. The return address says which library it is. (The function exists for profiling
 * with gprof: a program built with -pg has its own.) We notice a library that was
 * linked without that code when it first appears on a call stack (modules.c). That is
 * late: it may then free blocks that we never saw; the header says so.
 *
 * Which slots: we define the symbol and the library does not, and the slot holds the
 * very function that our hook calls. So an allocator that the library brings with it
 * is left alone. A slot that is bound at its first call holds an address in the library
 * itself until then. If nobody else defines the symbol, that slot can only be bound to
 * the function that our hook calls; otherwise scope.c searches as the loader would.
 *
 * Objects that were loaded at start are bound to us by the order of loading; we leave
 * them alone. Nothing here takes a lock or needs memory. */
#include "capture/linkage.h"
#include "capture/mempools.h"
#include "capture/redirect.h"
#include "capture/scope.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

/* ---- the objects that were loaded at start. They are never unloaded, so we may walk their list at any
 * time. */

static struct heft_object ours, allocator, libc;
static const struct link_map *first, *last; /* of the list */
static _Atomic int ready;
/* A library that was loaded later defines malloc too. */
static _Atomic int another_malloc;

static int object_of_map(const struct link_map *map, struct heft_object *o)
{
	return heft_object_at((uintptr_t)map->l_ld, o) || o->map != map ? -1 : 0;
}

int heft_redirect_init(const void *next_malloc, const void *in_libc)
{
	if (heft_object_at((uintptr_t)heft_redirect_init, &ours) ||
	    heft_object_at((uintptr_t)next_malloc, &allocator) ||
	    heft_object_at((uintptr_t)in_libc, &libc))
		return 0;
	int someone_before_us = 0;
	first = last = ours.map;
	while (last->l_next)
		last = last->l_next;
	while (first->l_prev) {
		struct heft_object o;
		first = first->l_prev;
		someone_before_us |= !object_of_map(first, &o) && heft_defined_at(&o, "malloc");
	}
	atomic_store_explicit(&ready, 1, memory_order_release);
	return someone_before_us;
}

static int was_there_at_start(const struct link_map *map)
{
	for (const struct link_map *m = first;; m = m->l_next) {
		if (m == map)
			return 1;
		if (m == last)
			return 0;
	}
}

/* Whether an object other than ours and `owner` defines the name. */
static int others_define(const char *name, const struct link_map *owner)
{
	if (atomic_load_explicit(&another_malloc, memory_order_relaxed))
		return 1;
	for (const struct link_map *m = first;; m = m->l_next) {
		struct heft_object o;
		if (m != ours.map && m != owner && !object_of_map(m, &o) &&
		    heft_defined_at(&o, name))
			return 1;
		if (m == last)
			return 0;
	}
}

/* ---- one library */

static int of_the_allocator(const char *name)
{
	static const char *const family[] = {
		"malloc",
		"calloc",
		"realloc",
		"reallocarray",
		"free",
		"free_sized",
		"free_aligned_sized",
		"posix_memalign",
		"aligned_alloc",
		"memalign",
		"valloc",
		"pvalloc",
	};
	for (unsigned i = 0; i < sizeof family / sizeof *family; i++)
		if (!strcmp(name, family[i]))
			return 1;
	return !strncmp(name, "_Z", 2);
}

struct library {
	struct heft_object o;
	struct heft_linkage l;
	struct heft_linkage own; /* ours */
	int late; /* its code has run already, and this thread is not inside dlopen */
	int lazy; /* slots that are not bound yet may be redirected */
};

/* What a slot for this symbol should hold; 0: leave it as it is. */
static uintptr_t wanted(const struct library *lib, const char *name, uint32_t type, uintptr_t holds)
{
	const Elf64_Sym *hook;
	/* Most names in C++ libraries are mangled, and of those only operators are ours. */
	if ((name[0] == '_' && name[1] == 'Z' && name[2] != 'n' && name[2] != 'd') ||
	    !(hook = heft_linkage_definition(&lib->own, name)))
		return 0;
	const struct heft_object *owner = of_the_allocator(name) ? &allocator : &libc;
	uintptr_t next = heft_defined_at(owner, name), to = ours.segments.bias + hook->st_value;
	if (!next || holds == to)
		return 0;
	if (holds == next)
		return to;
	struct heft_object at;
	int unbound = type == R_X86_64_JUMP_SLOT && lib->lazy && !heft_object_at(holds, &at) &&
		      at.map == lib->o.map;
	if (!unbound ||
	    (others_define(name, owner->map) &&
	     (lib->late || !heft_scope_leads_to(lib->o.map, name, owner->map, first, last))))
		return 0;
	return to;
}

/* One thread at a time opens a page and closes it again, so that no thread stores into a page that another
 * has just closed. That takes two system calls. A thread that loses its processor meanwhile is waited for,
 * but not without end. */
enum { OPENING_TRIES = 20000 };

static int open_page(void *page, _Atomic int *opening)
{
	for (int i = 0, free = 0; !atomic_compare_exchange_strong(opening, &free, 1);
	     i++, free = 0) {
		if (i == OPENING_TRIES)
			return 0;
		sys_yield();
	}
	if (!sys_mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		return 1;
	atomic_store(opening, 0);
	return 0;
}

static int write_slot(const struct heft_object *o, uintptr_t slot, uintptr_t value)
{
	const Elf64_Phdr *relro = heft_segment_of_type(&o->segments, PT_GNU_RELRO);
	int writable = 0, closed = 0;
	for (unsigned i = 0; i < o->segments.count; i++) {
		const Elf64_Phdr *ph = &o->segments.headers[i];
		writable |= ph->p_type == PT_LOAD && ph->p_flags & PF_W &&
			    slot - (o->segments.bias + ph->p_vaddr) < ph->p_memsz;
	}
	if (!writable || slot & 7)
		return 0;
	if (relro) { /* the loader closes whole pages, both ends rounded down */
		uintptr_t start = o->segments.bias + relro->p_vaddr, end = start + relro->p_memsz;
		closed = slot >= (start & ~(uintptr_t)(PAGE - 1)) &&
			 slot < (end & ~(uintptr_t)(PAGE - 1));
	}
	void *page = (void *)(slot & ~(uintptr_t)(PAGE - 1));
	static _Atomic int alone; /* where there is no process state yet: in a constructor */
	_Atomic int *opening = heft_process ? &heft_process->opening : &alone;
	if (closed && !open_page(page, opening))
		return 0;
	atomic_store_explicit((_Atomic uintptr_t *)slot, value, memory_order_release);
	if (closed) {
		sys_mprotect(page, PAGE, PROT_READ);
		atomic_store(opening, 0);
	}
	return 1;
}

static unsigned redirect(const struct library *lib, const struct heft_relocations *r)
{
	unsigned redirected = 0;
	for (uint64_t i = 0; i < r->count; i++) {
		const Elf64_Rela *e = &r->list[i];
		uint32_t type = (uint32_t)ELF64_R_TYPE(e->r_info);
		uint64_t symbol = ELF64_R_SYM(e->r_info);
		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT &&
		     type != R_X86_64_64) ||
		    !symbol || e->r_addend)
			continue;
		const Elf64_Sym *s = &lib->l.symbols[symbol];
		uintptr_t slot = lib->o.segments.bias + e->r_offset;
		if (s->st_shndx != SHN_UNDEF || !heft_object_holds(&lib->o, slot, 8))
			continue;
		uintptr_t holds = atomic_load_explicit((_Atomic uintptr_t *)slot,
						       memory_order_relaxed);
		uintptr_t to = wanted(lib, lib->l.strings + s->st_name, type, holds);
		if (to)
			redirected += (unsigned)write_slot(&lib->o, slot, to);
	}
	return redirected;
}

/* A library of another namespace (dlmopen) has its own libc, and its unbound slots lead there. A library
 * with a slot that is bound to our libc is not one of those. */
static int calls_our_libc(const struct library *lib)
{
	for (uint64_t i = 0; i < lib->l.calls.count; i++) {
		uintptr_t slot = lib->o.segments.bias + lib->l.calls.list[i].r_offset;
		struct heft_object at;
		if (heft_object_holds(&lib->o, slot, 8) &&
		    !heft_object_at(*(const volatile uintptr_t *)slot, &at) && at.map == libc.map)
			return 1;
	}
	return 0;
}

/* Returns how many slots were redirected. late: its code has run already. *lib: memory to work in */
static unsigned redirect_object(const struct heft_object *o, int late, struct library *lib)
{
	if (!atomic_load_explicit(&ready, memory_order_acquire) || was_there_at_start(o->map))
		return 0;
	lib->o = *o;
	lib->late = late;
	if (heft_linkage_of(o, &lib->l) || heft_linkage_of(&ours, &lib->own))
		return 0;
	if (heft_linkage_definition(&lib->l, "malloc"))
		atomic_store_explicit(&another_malloc, 1, memory_order_relaxed);
	lib->lazy = !late || calls_our_libc(lib);
	return redirect(lib, &lib->l.plain) + redirect(lib, &lib->l.calls);
}

_Static_assert(sizeof(struct library) <= HEFT_WORK_BYTES, "fits");
void heft_redirect_late(const struct heft_object *o, char *work)
{
	if (work && redirect_object(o, 1, (struct library *)work) && heft_mapped)
		atomic_fetch_add(&wire_session_at(heft_mapped).header->late_libraries, 1);
}

EXPORT void __gmon_start__(void)
{
	struct heft_own_work work = heft_own_work_begin();
	struct heft_object o;
	struct library lib;
	heft_resolve_next();
	if (!heft_object_at((uintptr_t)__builtin_return_address(0) - 1, &o)) {
		redirect_object(&o, 0, &lib);
		if (atomic_load_explicit(&ready, memory_order_acquire) &&
		    !was_there_at_start(o.map))
			heft_mempools_loaded(&o);
	}
	heft_own_work_end(work);
}
