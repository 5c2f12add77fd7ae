/* Makes the plan (placement_plan.h).
 *
 * The malloc that all modules call must be hooked with all its functions, or nothing is
 * done. A function of another allocator that cannot be hooked is left out, and
 * the recording says so: an allocator may have a hundred, of which a program calls five. */
#include "attach/placement_plan.h"

#include "attach/target_branches.h"
#include "attach/target_links.h"
#include "session/own_allocator.h"
#include "session/process_start.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CODE_MOST = 256 << 10 }; /* of one function, to look for branches back */

static bool is_needed(const struct target_entry *e)
{
	return e->wire.hook < WIRE_BLOB_EXECVE;
}

/* Leaves a function out. Fails if nothing works without it. */
static int refuse(struct target_entry *e, const char *why, struct heft_error *err)
{
	if (is_needed(e))
		return heft_fail(err, HEFT_EREFUSED, "%s: %s", e->name, why);
	snprintf(e->refused, sizeof e->refused, "%.*s", TARGET_REASON - 1,
		 strstr(why, "is a call") ? "a call is among its first instructions" : why);
	return 0;
}

/* ---- places */

/* Bytes of a page for so many functions; the first one has the blob behind it. */
static size_t page_bytes(const struct placement_plan *p, unsigned page, unsigned functions)
{
	return near_page_bytes(functions) + (page ? 0 : p->blob.size);
}

/* Gives an entry to a page that reaches its module, or makes one. */
static int choose_page(struct placement_plan *p, size_t entry, struct heft_error *err)
{
	const struct target_entry *e = &p->allocator.entries[entry];
	const struct target_module *m = &p->modules.items[e->module];
	unsigned i = 0;
	for (; i < p->page_count; i++) {
		struct placement_page *page = &p->pages[i];
		uint64_t low = m->low < page->low ? m->low : page->low;
		uint64_t high = m->high > page->high ? m->high : page->high;
		bool same = low == page->low && high == page->high;
		if (!same &&
		    !target_place_near(&p->modules, low, high, page_bytes(p, i, WIRE_BLOB_ENTRIES)))
			continue;
		page->low = low;
		page->high = high;
		break;
	}
	if (i == PLACEMENT_PAGES)
		return heft_fail(err, HEFT_EREFUSED,
				 "the modules of process %d that allocate lie too far apart",
				 p->modules.pid);
	if (i == p->page_count)
		p->pages[p->page_count++] = (struct placement_page){.low = m->low, .high = m->high};
	p->pages[i].functions++;
	p->places[entry].page = i;
	return 0;
}

/* Two pages must not get the same place: the space that is free now is looked for in one list. */
static bool overlaps(const struct placement_plan *p, unsigned page, uint64_t at, size_t bytes)
{
	for (unsigned i = 0; i < page; i++)
		if (at < p->pages[i].at + page_bytes(p, i, p->pages[i].functions) &&
		    p->pages[i].at < at + bytes)
			return true;
	return false;
}

static int place_pages(struct placement_plan *p, struct heft_error *err)
{
	for (unsigned i = 0; i < p->page_count; i++) {
		struct placement_page *page = &p->pages[i];
		size_t bytes = page_bytes(p, i, page->functions);
		page->at = target_place_near(&p->modules, page->low, page->high, bytes);
		if (!page->at || overlaps(p, i, page->at, bytes))
			return heft_fail(err, HEFT_EREFUSED,
					 "process %d has no space within 2 GiB of its allocator",
					 p->modules.pid);
		int rc = near_page_init(&page->near, page->at, page->functions, err);
		if (rc)
			return rc;
	}
	blob_image_place(&p->blob, p->pages[0].at + p->pages[0].near.size);
	return 0;
}

/* ---- functions */

static uint64_t moved_pc(void *ctx, uint64_t pc)
{
	return near_page_pc(ctx, pc);
}

static int add_function(struct placement_plan *p, size_t entry, struct heft_error *err)
{
	struct target_entry *e = &p->allocator.entries[entry];
	struct wire_blob *shared = blob_image_shared(&p->blob);
	const struct target_function *f = &e->function;
	struct near_page *near = &p->pages[p->places[entry].page].near;
	size_t n = f->room < CODE_MOST ? f->room : CODE_MOST;
	struct heft_error why = {0};
	uint8_t *code = malloc(n);
	if (!code)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	uint64_t argument = p->blob.at + p->blob.shared + offsetof(struct wire_blob, entries) +
			    shared->entry_count * sizeof *shared->entries;
	int number;
	if (!target_modules_memory(&p->modules, f->address, code, n))
		number = heft_fail(&why, HEFT_EIO, "its code cannot be read");
	else
		number = near_page_add(near, e->name, code, n, f->address, f->bytes,
				       shared->hook[e->wire.hook], argument, &why);
	free(code);
	p->places[entry].number = number;
	if (number < 0)
		return refuse(e, why.message, err);
	struct wire_blob_entry *w = &shared->entries[shared->entry_count++];
	*w = e->wire;
	w->next = near_page_copy(near, (unsigned)number);
	w->twin = e->twin;
	return 0;
}

/* A twin that is hooked, too, is called behind its hook. */
static void lead_past_hooks(struct placement_plan *p)
{
	struct wire_blob *shared = blob_image_shared(&p->blob);
	for (uint32_t i = 0; i < shared->entry_count; i++)
		for (size_t k = 0; shared->entries[i].twin && k < p->allocator.count; k++)
			if (p->places[k].number >= 0 &&
			    p->allocator.entries[k].function.address == shared->entries[i].twin) {
				shared->entries[i].twin = near_page_copy(
					&p->pages[p->places[k].page].near,
					(unsigned)p->places[k].number);
				break;
			}
}

static void forget_pages(struct placement_plan *p)
{
	for (unsigned i = 0; i < p->page_count; i++)
		near_page_fini(&p->pages[i].near);
	memset(p->pages, 0, sizeof p->pages);
	p->page_count = 0;
	blob_image_shared(&p->blob)->entry_count = 0;
	for (size_t i = 0; i < WIRE_BLOB_ENTRIES; i++)
		p->places[i].number = -1;
}

/* The code is read page by page: looking through it asks for one instruction after the other. */
enum { CODE_PAGE = 4096 };
struct code_reader {
	const struct target_modules *modules;
	uint64_t page; /* the one that is in bytes; 1: none */
	uint8_t bytes[CODE_PAGE];
};

static bool read_code(void *context, uint64_t at, void *to, size_t n)
{
	struct code_reader *r = context;
	uint8_t *out = to;
	while (n) {
		const uint64_t page = at & ~(uint64_t)(CODE_PAGE - 1), from = at - page;
		size_t part = n < CODE_PAGE - from ? n : (size_t)(CODE_PAGE - from);
		if (r->page != page &&
		    !target_modules_memory(r->modules, page, r->bytes, sizeof r->bytes)) {
			r->page = 1;
			return false;
		}
		r->page = page;
		memcpy(out, r->bytes + from, part);
		out += part;
		at += part;
		n -= part;
	}
	return true;
}

/* A small function that calls nobody may keep registers which its callers rely on. Those of libc that make a system call
 * are in files of their own, so that no compiler has seen both. */
static void refuse_closed(struct placement_plan *p)
{
	struct code_reader reader = {.modules = &p->modules, .page = 1};
	const struct relocate_memory memory = {read_code, &reader};
	for (size_t i = 0; i < p->allocator.count; i++) {
		struct target_entry *e = &p->allocator.entries[i];
		if (!is_needed(e) && !target_is_of_libc(e->wire.hook) && !e->refused[0] &&
		    relocate_is_closed(&memory, e->function.address))
			snprintf(e->refused, sizeof e->refused,
				 "it calls nothing of other modules, so its callers may rely on "
				 "registers that it does not use");
	}
}

static int fill_pages(struct placement_plan *p, struct heft_error *err)
{
	struct target_allocator *a = &p->allocator;
	int rc = 0;
	forget_pages(p);
	for (size_t i = 0; i < a->count && !rc; i++)
		if (!a->entries[i].refused[0])
			rc = choose_page(p, i, err);
	if (!rc)
		rc = place_pages(p, err);
	for (size_t i = 0; i < a->count && !rc; i++)
		if (!a->entries[i].refused[0])
			rc = add_function(p, i, err);
	lead_past_hooks(p);
	return rc;
}

/* Leaves out functions that other code enters behind their first instruction. *again: some were. */
static int check_branches(struct placement_plan *p, bool *again, struct heft_error *err)
{
	struct branch_range ranges[WIRE_BLOB_ENTRIES];
	size_t entries[WIRE_BLOB_ENTRIES], count = 0;
	*again = false;
	for (size_t i = 0; i < p->allocator.count; i++) {
		if (p->places[i].number < 0)
			continue;
		const struct near_entry *e = near_page_entry(&p->pages[p->places[i].page].near,
							     (unsigned)p->places[i].number);
		ranges[count] = (struct branch_range){e->at, e->at + e->displaced, 0};
		entries[count++] = i;
	}
	int rc = target_branches_find(&p->modules, ranges, count, err);
	for (size_t i = 0; i < count && !rc; i++) {
		char why[TARGET_REASON];
		if (!ranges[i].from)
			continue;
		snprintf(why, sizeof why, "the code at 0x%llx leads to its first instructions",
			 (unsigned long long)ranges[i].from);
		rc = refuse(&p->allocator.entries[entries[i]], why, err);
		*again = true;
	}
	return rc;
}

/* ---- the whole */

static void fill_changes(struct placement_plan *p)
{
	for (unsigned i = 0; i < p->page_count; i++)
		for (unsigned k = 0; k < near_page_count(&p->pages[i].near); k++) {
			struct near_page *near = &p->pages[i].near;
			const struct near_entry *e = near_page_entry(near, k);
			struct stop_change *c = &p->changes[p->change_count++];
			c->at = e->at;
			c->bytes = e->displaced;
			memcpy(c->old, e->old, e->displaced);
			memcpy(c->now, e->old, e->displaced);
			near_page_jump(near, k, c->now);
			c->moved = moved_pc;
			c->ctx = near;
		}
}

/* Where nobody in the program knows its modules, the blob gets a list. */
static int make_tables(struct placement_plan *p, struct heft_error *err)
{
	struct wire_blob *shared = blob_image_shared(&p->blob);
	if (shared->find_object)
		return 0;
	int rc = target_tables_make(&p->tables, &p->modules, err);
	if (rc)
		return rc;
	p->tables_from = blob_image_extend(&p->blob, p->tables.size);
	shared->module_count = p->tables.modules;
	return p->tables_from
		       ? 0
		       : heft_fail(err, HEFT_EREFUSED,
				   "the unwind tables of process %d are too large", p->modules.pid);
}

static void fill_settings(struct placement_plan *p, const struct attach_options *o)
{
	struct wire_blob *shared = blob_image_shared(&p->blob);
	struct stat st = {0};
	shared->sample_bytes = o->sample_bytes;
	shared->sample_auto = o->sample_automatic;
	shared->follow_none = !o->follow;
	snprintf(shared->session_dir, sizeof shared->session_dir, "%s", o->session_dir);
	if (o->preload && strlen(o->preload) < sizeof shared->preload_path)
		snprintf(shared->preload_path, sizeof shared->preload_path, "%s", o->preload);
	if (o->sample_automatic)
		snprintf(shared->mode_variable, sizeof shared->mode_variable,
			 WIRE_ENV_SAMPLE "=auto");
	else if (o->sample_bytes)
		snprintf(shared->mode_variable, sizeof shared->mode_variable,
			 WIRE_ENV_SAMPLE "=%llu", (unsigned long long)o->sample_bytes);
	stat(o->session_dir, &st);
	if (p->tables_from)
		shared->tables = p->blob.at + p->tables_from;
	for (unsigned i = 0; i < p->page_count; i++) {
		uint64_t *own = near_page_header(&p->pages[i].near)->own;
		own[OWN_MAIN] = i ? p->pages[0].at : 0;
		own[OWN_GUARDIAN] = (uint64_t)getpid();
		own[OWN_GUARDIAN_ID] = process_start_ticks(getpid());
		if (i)
			near_page_header(&p->pages[0].near)->own[OWN_SIDES + i - 1] =
				p->pages[i].at;
	}
	uint64_t *own = near_page_header(&p->pages[0].near)->own;
	own[OWN_BLOB_AT] = p->blob.at;
	own[OWN_BLOB_BYTES] = p->blob.size;
	own[OWN_SHARED] = p->blob.at + p->blob.shared;
	own[OWN_SESSION_DEVICE] = st.st_dev;
	own[OWN_SESSION_INODE] = st.st_ino;
}

/* ---- what is seen */

/* An allocator of whose functions none could be hooked is not seen. */
static void judge_allocators(struct placement_plan *p)
{
	struct wire_blob *shared = blob_image_shared(&p->blob);
	for (size_t i = 0; i < p->allocator.own_count; i++) {
		unsigned gives = 0, takes = 0;
		for (uint32_t k = 0; k < shared->entry_count; k++) {
			const struct wire_blob_entry *e = &shared->entries[k];
			bool frees = e->hook == WIRE_BLOB_FREE || e->hook == WIRE_BLOB_OWN_FREE;
			bool execs = target_is_of_libc(e->hook) && e->hook != WIRE_BLOB_DLCLOSE;
			if (e->allocator == i && !execs)
				*(frees ? &takes : &gives) += 1;
		}
		p->allocator.own[i].functions = gives + takes;
		if (!gives || !takes)
			shared->allocators[i].device = shared->allocators[i].inode = 0;
	}
}

/* The executable is stripped, and has the words of an allocator: its numbers would be near zero. */
static int check_stripped(struct placement_plan *p, struct heft_error *err)
{
	const struct wire_blob *shared = blob_image_shared(&p->blob);
	const ssize_t program = target_program(&p->modules);
	struct wire_hooked files[WIRE_BLOB_ALLOCATORS];
	struct own_allocator found;
	if (program >= 0 && !target_is_stripped(&p->modules, (size_t)program))
		return 0;
	for (uint32_t i = 0; i < shared->allocator_count; i++)
		files[i] = (struct wire_hooked){shared->allocators[i].device,
						shared->allocators[i].inode};
	const struct own_allocator_seen seen = {files, shared->allocator_count};
	char exe[40];
	snprintf(exe, sizeof exe, "/proc/%d/exe", (int)p->modules.pid);
	if (own_allocator_of_program(exe, seen, &found) && found.how != ELF_MALLOC_LIKELY)
		return 0; /* and nobody needs to look at its libraries */
	if (!own_allocator_of_process(p->modules.pid, seen, &found) || found.library ||
	    found.how != ELF_MALLOC_LIKELY)
		return 0;
	return heft_fail(err, HEFT_EREFUSED, "%s", found.text);
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
							 const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;
	va_start(args, format);
	vsnprintf(text + used, size - used, format, args);
	va_end(args);
}

static void describe(const struct placement_plan *p, struct attach_report *report)
{
	const struct target_allocator *a = &p->allocator;
	for (size_t i = 0; i < a->own_count; i++)
		append(report->hooked, sizeof report->hooked, "%s%s in %s (%u function%s)",
		       i ? ", " : "", a->own[i].name, p->modules.items[a->own[i].module].path,
		       a->own[i].functions, a->own[i].functions == 1 ? "" : "s");
	/* A library exports what others call. */
	if (p->modules.items[a->module].program && !target_has_symbols(&p->modules, a->module))
		append(report->unseen, sizeof report->unseen,
		       "all that this stripped program has beside malloc and does not export");
	for (size_t i = 0; i < a->count; i++)
		if (a->entries[i].refused[0])
			append(report->unseen, sizeof report->unseen, "%s%s (%s)",
			       report->unseen[0] ? ", " : "", a->entries[i].name,
			       a->entries[i].refused);
}

int placement_plan_make(struct placement_plan *p, const struct attach_options *o,
			struct attach_report *report, struct heft_error *err)
{
	struct target_named named[ATTACH_FUNCTIONS];
	bool again = true;
	for (unsigned i = 0; i < o->functions.count; i++)
		attach_function_meaning(&o->functions.items[i], &named[i]);
	int rc = target_modules_read(&p->modules, o->pid, err);
	if (!rc)
		rc = target_allocator_find(&p->allocator, &p->modules, err);
	if (!rc)
		rc = target_own_find(&p->allocator, &p->modules, named, o->functions.count, err);
	if (!rc && o->preload)
		target_add_execs(&p->allocator, &p->modules);
	if (!rc)
		target_describe(blob_image_shared(&p->blob), &p->modules, &p->allocator);
	if (!rc)
		rc = make_tables(p, err);
	if (!rc)
		refuse_closed(p);
	while (!rc && again) {
		rc = fill_pages(p, err);
		if (!rc)
			rc = check_branches(p, &again, err);
	}
	if (rc)
		return rc;
	judge_allocators(p);
	rc = check_stripped(p, err);
	if (rc)
		return rc;
	fill_changes(p);
	fill_settings(p, o);
	describe(p, report);
	return 0;
}

void placement_plan_fini(struct placement_plan *p)
{
	for (unsigned i = 0; i < p->page_count; i++)
		near_page_fini(&p->pages[i].near);
	target_tables_fini(&p->tables);
	target_modules_fini(&p->modules);
	blob_image_fini(&p->blob);
}
