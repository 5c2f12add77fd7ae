/* Pages whose owner the kernel or a file names: modules, files, shared memory, the first stack, .bss, what the program
 * has named itself (prctl PR_SET_VMA), and heft's own. And, at the end, what is left.
 *
 * .bss has no name: the kernel shows it as anonymous memory, often merged with its neighbours. Program headers say where
 * it is: between the end of a segment in the file and its end in memory, in whole pages. The page that both share has
 * the file's name and is the module's own. */
#include "ledger/ledger_parts.h"

#include "attach/near_page.h"
#include "attach/placement.h"
#include "hosted/error.h"
#include "hosted/program_name.h"
#include "hosted/sorted.h"
#include "session/session_dir.h"

#include <elf.h>
#include <stdio.h>

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static const char *keep(struct ledger_taking *t, const char *name)
{
	const char *kept = name_pool_add(t->names, name);
	return kept ? kept : "?";
}

/* ---- heft's own */

bool ledger_is_session(const struct target_mapping *m)
{
	int32_t pid;
	uint64_t stamp;
	return m->shared && session_file_name(path_file(m->name), &pid, &stamp);
}

static bool is_heft_module(const char *path)
{
	return begins(path_file(path), "libheft-");
}

/* What heft attach has put there begins with a header. */
static bool claim_attached(struct ledger_taking *t)
{
	static const char name[] = "heft's code, put there by heft attach";
	bool fine = true;
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		struct near_header head;
		if (m->inode || m->shared || m->name[0] || !m->read ||
		    !ledger_pages_have(&t->pages, m->start) ||
		    !ledger_read(t, m->start, &head, sizeof head) ||
		    !near_page_is((const uint8_t *)&head, sizeof head) || head.at != m->start)
			continue;
		fine = ledger_claim_anonymous(t, head.at, head.at + head.bytes, LEDGER_HEFT, name);
		uint64_t at = head.own[OWN_BLOB_AT], bytes = head.own[OWN_BLOB_BYTES];
		if (fine && at == head.at + head.bytes && bytes < UINT64_C(1) << 32)
			fine = ledger_claim_anonymous(t, at, at + bytes, LEDGER_HEFT, name);
	}
	return fine;
}

/* ---- files */

enum { SEGMENTS = 8 }; /* of a library, at most */

static const struct target_module *module_of(const struct ledger_taking *t,
					     const struct target_mapping *m)
{
	for (size_t i = 0; i < t->modules.count; i++) {
		const struct target_mapping *head =
			&t->modules.maps.items[t->modules.items[i].mapping];
		if (head->inode == m->inode && head->device_major == m->device_major &&
		    head->device_minor == m->device_minor)
			return &t->modules.items[i];
	}
	return NULL;
}

/* Of a library that was loaded after the modules were looked up: one of its segments, which are neighbours, is code. */
static bool has_code(const struct ledger_taking *t, const struct target_mapping *m)
{
	const size_t at = (size_t)(m - t->maps.items);
	for (size_t i = at > SEGMENTS ? at - SEGMENTS : 0; i < t->maps.count && i <= at + SEGMENTS;
	     i++) {
		const struct target_mapping *o = &t->maps.items[i];
		if (o->execute && o->inode == m->inode && o->device_major == m->device_major &&
		    o->device_minor == m->device_minor)
			return true;
	}
	return false;
}

/* Memory that has a file behind it only in the kernel's eyes */
static bool is_shared_memory(const char *name)
{
	return begins(name, "/dev/shm/") || begins(name, "/memfd:") || begins(name, "/SYSV") ||
	       !strcmp(name, "/dev/zero") || begins(name, "[anon_shmem:");
}

static bool claim_file(struct ledger_taking *t, const struct target_mapping *m)
{
	const struct target_module *module = module_of(t, m);
	struct ledger_span span = {.start = m->start, .end = m->end, .kind = LEDGER_FILES};
	if (ledger_is_session(m)) {
		span.kind = LEDGER_HEFT;
		span.name = "what is recorded, shared with heft";
	} else if (module && is_heft_module(m->name)) {
		span.kind = LEDGER_HEFT;
		span.name = "heft's library";
	} else if (module) {
		span.kind = LEDGER_MODULES_SHARED;
		span.by_owner = true;
		span.name = keep(t, m->name);
	} else if (is_shared_memory(m->name)) {
		span.kind = LEDGER_SHARED_MEMORY;
		span.name = !strcmp(m->name, "/dev/zero") ? "shared anonymous memory"
							  : keep(t, m->name);
	} else {
		if (has_code(t, m)) {
			span.kind = LEDGER_MODULES_SHARED;
			span.by_owner = true;
		}
		span.name = keep(t, m->name);
	}
	return ledger_spans_add(&t->wanted[t->turn], &span);
}

/* ---- names that are no files */

/* "[anon:NAME]": NAME is what a program or a runtime calls its own memory. glibc's names say less than its
 * structures do. */
static bool claim_named(struct ledger_taking *t, const struct target_mapping *m)
{
	char name[256];
	size_t length = strlen(m->name);
	if (begins(m->name, "[anon: glibc:") || length < 8 || length >= sizeof name)
		return true;
	memcpy(name, m->name + 6, length - 7);
	name[length - 7] = 0;
	const char *plain = name + strspn(name, " ");
	bool heap = begins(plain, "Go: ") || begins(plain, "jemalloc") ||
		    begins(plain, "mimalloc") || begins(plain, "v8") || begins(plain, "scudo") ||
		    begins(plain, "partition_alloc");
	return ledger_claim(t, m->start, m->end, heap ? LEDGER_ALLOCATOR : LEDGER_ANONYMOUS,
			    keep(t, plain));
}

static bool claim_special(struct ledger_taking *t, const struct target_mapping *m)
{
	if (!strcmp(m->name, "[stack]"))
		return ledger_claim(t, m->start, m->end, LEDGER_STACKS,
				    "stack of the first thread");
	if (begins(m->name, "[vdso]") || begins(m->name, "[vvar") || begins(m->name, "[uprobes]"))
		return ledger_claim(t, m->start, m->end, LEDGER_MODULES_SHARED,
				    "[vdso], the kernel's");
	if (begins(m->name, "[anon:"))
		return claim_named(t, m);
	return true;
}

/* ---- .bss */

static bool claim_bss(struct ledger_taking *t, const struct target_module *module)
{
	const struct target_image *im = &module->image;
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	memcpy(&eh, im->header, sizeof eh);
	const enum ledger_kind kind = is_heft_module(module->path) ? LEDGER_HEFT : LEDGER_BSS;
	const char *name = kind == LEDGER_HEFT ? "heft's library" : keep(t, module->path);
	bool fine = true;
	for (unsigned i = 0; i < eh.e_phnum && fine; i++) {
		size_t at = eh.e_phoff + i * sizeof ph;
		if (at + sizeof ph > im->header_bytes)
			break;
		memcpy(&ph, im->header + at, sizeof ph);
		if (ph.p_type != PT_LOAD || ph.p_memsz <= ph.p_filesz || !(ph.p_flags & PF_W))
			continue;
		uint64_t start = im->bias + ph.p_vaddr + ph.p_filesz;
		uint64_t end = im->bias + ph.p_vaddr + ph.p_memsz;
		start = (start + LEDGER_PAGE - 1) & ~(uint64_t)(LEDGER_PAGE - 1);
		if (start < end && end <= module->high)
			fine = ledger_claim(t, start, end, kind, name);
	}
	return fine;
}

int ledger_names_claim(struct ledger_taking *t, struct heft_error *err)
{
	bool fine = true;
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		if (ledger_is_reserved(m) || ledger_is_plain(m))
			continue;
		fine = m->inode || is_shared_memory(m->name) ? claim_file(t, m)
							     : claim_special(t, m);
	}
	t->turn = LEDGER_TURN_BSS;
	for (size_t i = 0; i < t->modules.count && fine; i++)
		fine = claim_bss(t, &t->modules.items[i]);
	fine = fine && claim_attached(t);
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}

/* ---- the rest */

/* Pages behind a mapping that nobody may touch now, but that were touched before. */
static bool claim_behind(struct ledger_taking *t, const struct target_mapping *m)
{
	const struct ledger_pages *p = &t->pages;
	bool fine = true;
	for (size_t i = count_before(k, p->count, p->items[k].end <= m->start);
	     i < p->count && p->items[i].start < m->end && fine; i++) {
		const struct ledger_run *r = &p->items[i];
		uint64_t start = r->start > m->start ? r->start : m->start;
		uint64_t end = r->end < m->end ? r->end : m->end;
		if (start < end)
			fine = ledger_claim(t, start, end, LEDGER_ANONYMOUS,
					    "touched once, now without any right (PROT_NONE)");
	}
	return fine;
}

int ledger_mapped_claim(struct ledger_taking *t, struct heft_error *err)
{
	static const char name[] = "mapped by the program or a library";
	const struct target_maps *maps = &t->maps;
	bool fine = true;
	for (size_t p = 0; p < t->blocks.mapped.count && fine; p++) {
		const struct ledger_mapped *piece = &t->blocks.mapped.items[p];
		for (size_t i = count_before(k, maps->count, maps->items[k].end <= piece->start);
		     i < maps->count && maps->items[i].start < piece->end && fine; i++) {
			const struct target_mapping *m = &maps->items[i];
			struct ledger_span span = {.start = m->start > piece->start ? m->start
										    : piece->start,
						   .end = m->end < piece->end ? m->end : piece->end,
						   .kind = LEDGER_ANONYMOUS,
						   .name = name,
						   .site = piece->site + 1};
			if (ledger_is_plain(m))
				fine = ledger_spans_add(&t->wanted[t->turn], &span);
		}
	}
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}

int ledger_rest_claim(struct ledger_taking *t, struct heft_error *err)
{
	char unknown[256];
	bool fine = true;
	if (t->allocator)
		snprintf(unknown, sizeof unknown,
			 "made by %.100s, the program or a library (not recorded)", t->allocator);
	else
		snprintf(unknown, sizeof unknown,
			 "made by the program or a library (not recorded)");
	const char *name = keep(t, unknown);
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		if (begins(m->name, "[vsyscall]"))
			continue;
		fine = ledger_is_reserved(m)
			       ? claim_behind(t, m)
			       : ledger_claim(t, m->start, m->end, LEDGER_ANONYMOUS,
					      m->execute ? "code made at run time" : name);
	}
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}
