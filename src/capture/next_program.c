/* Follows a process into what it executes (next_program.h).
 *
 * Usually the environment does it: children inherit LD_PRELOAD and HEFT_SESSION.
 * A program may pass an environment of its own. So it is looked at, and if our entries are not there,
 * a copy that has them is passed on. Nothing else of the environment changes. Each exec leaves a note in
 * the log, so that the outside can say which program it could not record (static,
 * setuid, no access).
 *
 * A program that has locked itself in (sandbox.c) executes others without heft: its
 * filter holds for them too, and heft would start there without knowing it. (Where calls
 * just fail, heft may try.)
 *
 * So does one that executes a program whose loader does not take our library (preloadable.c).
 * The outside may hold such a program at its start, a static one, and one that has an allocator of its own
 * (held_exec.c).
 *
 * A program may pass anything for a path or an environment; the kernel then says
 * EFAULT. So nothing is read that was not asked about, and what cannot be read goes
 * on as it is. Nothing here allocates or takes a lock. */
#include "capture/next_program.h"

#include "capture/count.h"

#include "capture/held_exec.h"
#include "capture/preloadable.h"
#include "capture/settings.h"

#include <limits.h>
#include <string.h>

/* ---- reading what a program passes */

static int can_read(struct heft_looked *l, uintptr_t at)
{
	enum { PAGE = 4096 };
	uintptr_t page = at & ~(uintptr_t)(PAGE - 1);
	if (!page || at >> 47) /* 0 means "none" in page[] */
		return 0;
	if (page == l->page[0] || page == l->page[1])
		return 1;
	/* Where a sandbox does not let us ask we believe the program. */
	if (sys_may(SYS_DO_SIGPROCMASK) && !sys_readable((void *)page))
		return 0;
	l->page[1] = l->page[0];
	l->page[0] = page;
	return 1;
}

long heft_text_bytes(struct heft_looked *l, const char *text, size_t most)
{
	for (size_t n = 0; n < most; n++) {
		if (!can_read(l, (uintptr_t)text + n))
			return -1;
		if (!text[n])
			return (long)n;
	}
	return (long)most;
}

/* An entry of an array of pointers: 1, 0: it is NULL, -1: it cannot be read. */
static int take_pointer(struct heft_looked *l, char *const *at, const char **entry)
{
	uint64_t value;
	if (!can_read(l, (uintptr_t)at) || !can_read(l, (uintptr_t)at + sizeof value - 1))
		return -1;
	memcpy(&value, at, sizeof value);
	*entry = (const char *)value;
	return value != 0;
}

/* 1: the text begins with the prefix, 0: it does not, -1: it cannot be read. */
static int begins_with(struct heft_looked *l, const char *text, const char *prefix)
{
	for (; *prefix; prefix++, text++) {
		if (!can_read(l, (uintptr_t)text))
			return -1;
		if (*text != *prefix)
			return 0;
	}
	return 1;
}

/* Writes into the log of the file that is mapped here. In a child that has not opened its own, that is its
 * parent's. */
static void note(uint32_t kind, int pid, const char *path)
{
	struct heft_looked l = {0};
	if (!heft_mapped || pid <= 0 || !sys_may_stamp())
		return;
	struct wire_session s = wire_session_at(heft_mapped);
	long readable = heft_text_bytes(&l, path, 1024);
	size_t n = readable > 0 ? (size_t)readable : 0;
	uint32_t bytes = (uint32_t)((sizeof(struct wire_module) + n + 7) & ~7ul);
	struct wire_module *m = heft_log_begin(&s, bytes);
	if (!m)
		return;
	m->kind = kind;
	m->start = (uint64_t)pid;
	m->end = arch_stamp();
	m->path_bytes = (uint16_t)n;
	m->build_id_bytes = 0;
	if (n)
		memcpy(m->data, path, n);
	heft_log_end(m);
}

/* ---- environments */

static void look_at_list(struct heft_missing *m)
{
	size_t own = strlen(heft_settings.preload_path);
	for (const char *at = m->list; *at;) {
		size_t n = strcspn(at, ": ");
		if (n == own && !strncmp(at, heft_settings.preload_path, n))
			m->preload = 0;
		at += n;
		at += *at != 0;
	}
}

struct heft_missing heft_missing_in(char *const *env)
{
	struct heft_missing m = {
		.session = 1, .preload = 1, .mode = heft_settings.mode_variable[0] != 0};
	struct heft_looked l = {0};
	const char *e;
	int there = 0;
	for (; env && (there = take_pointer(&l, &env[m.count], &e)) > 0; m.count++) {
		int session = begins_with(&l, e, WIRE_ENV_SESSION "=");
		int sample = begins_with(&l, e, WIRE_ENV_SAMPLE "=");
		int mode = begins_with(&l, e, WIRE_ENV_MODE "=");
		int preload = begins_with(&l, e, "LD_PRELOAD=");
		long bytes = preload > 0 ? heft_text_bytes(&l, e, LONG_MAX) : 0;
		m.bad |= session < 0 || sample < 0 || mode < 0 || preload < 0 || bytes < 0;
		m.ours |= session | sample | mode | preload;
		m.session &= session <= 0;
		m.mode &= (heft_settings.counts || heft_settings.mempools ? mode : sample) <= 0;
		if (preload > 0 && bytes > 0) {
			m.list = e + 11;
			m.list_bytes = (size_t)bytes - 11;
			look_at_list(&m);
		}
	}
	m.bad |= there < 0;
	return m;
}

static int must_complete(const struct heft_missing *m)
{
	return !heft_settings.follow_none && heft_settings.session_dir[0] &&
	       heft_settings.preload_path[0] && !m->bad && (m->session || m->preload || m->mode);
}

static int is_locked_in(void)
{
	return (atomic_load_explicit(&sys_forbidden, memory_order_relaxed) &
		(SYS_DEADLY | SYS_STAMP)) != 0;
}

/* Makes an environment that has them. New strings go to `text`, the pointers to `to`; both are on the
 * caller's stack. */
static char **completed(char **to, char *text, char *const *env, const struct heft_missing *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->count; i++)
		if (!m->preload || strncmp(env[i], "LD_PRELOAD=", 11))
			to[n++] = env[i];
	if (m->preload) {
		to[n++] = text;
		text = stpcpy(text, "LD_PRELOAD=");
		text = stpcpy(text, heft_settings.preload_path);
		if (m->list && *m->list) {
			*text++ = ':';
			text = stpcpy(text, m->list);
		}
		text++;
	}
	if (m->session) {
		to[n++] = text;
		text = stpcpy(text, WIRE_ENV_SESSION "=");
		text = stpcpy(text, heft_settings.session_dir) + 1;
	}
	if (m->mode) {
		to[n++] = text;
		stpcpy(text, heft_settings.mode_variable);
	}
	to[n] = NULL;
	return to;
}

/* The same without any of ours. A list of libraries is changed in a copy. (If there are two, the last holds.) */
static char **without_ours(char **to, char *text, char *const *env, const struct heft_missing *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->count; i++)
		if (env[i] + 11 == m->list)
			to[n++] = memcpy(text, env[i], m->list_bytes + 12);
		else if (!m->list || strncmp(env[i], "LD_PRELOAD=", 11) != 0)
			to[n++] = env[i];
	to[n] = NULL;
	heft_settings_remove(to);
	return to;
}

/* ---- the next program */

struct heft_next_program heft_next_program(int folder, const char *path, char *const *search)
{
	struct heft_looked l = {0};
	struct heft_file file;
	if (is_locked_in())
		return (struct heft_next_program){.without = 1};
	if (heft_text_bytes(&l, path, PATH_MAX) <= 0)
		return (struct heft_next_program){0};
	heft_file_look(&file, folder, path, search);
	if (file.kind == HEFT_FILE_TAKES && !file.privileged && file.fd >= 0)
		file.kind = heft_ask_kind(&file);
	if (file.fd >= 0)
		sys_close(file.fd);
	return (struct heft_next_program){
		.without = file.kind == HEFT_FILE_REFUSES || file.kind == HEFT_FILE_FOREIGN,
		.own_allocator = file.kind == HEFT_FILE_OWN_ALLOCATOR,
		.hold = (file.kind == HEFT_FILE_STATIC || file.kind == HEFT_FILE_FOREIGN ||
			 file.kind == HEFT_FILE_OWN_ALLOCATOR) &&
			!file.privileged,
	};
}

size_t heft_next_environment_bytes(const struct heft_missing *m,
				   const struct heft_next_program *next)
{
	if (next->without ? !m->ours || m->bad : !must_complete(m))
		return 0;
	return (m->count + 4) * sizeof(char *) + sizeof heft_settings.preload_path +
	       sizeof heft_settings.session_dir + sizeof heft_settings.mode_variable + 64 +
	       m->list_bytes;
}

char **heft_next_environment(void *memory, char *const *env, const struct heft_missing *m,
			     const struct heft_next_program *next)
{
	char **to = memory, *text = (char *)(to + m->count + 4);
	return next->without ? without_ours(to, text, env, m) : completed(to, text, env, m);
}

/* ---- leaving */

void heft_note_exec(int pid, const char *path)
{
	note(WIRE_LOG_EXEC, pid, path);
}

static void set_exec_stamp(int pid, uint64_t tsc)
{
	struct wire_header *h = heft_own_header();
	if (h && h->pid == pid) {
		heft_count_publish();
		atomic_store(&h->exec_tsc, tsc);
	}
}

struct heft_leaving heft_about_to_exec(const char *path, struct heft_next_program *next)
{
	struct heft_leaving l = {.hold = next->hold ? heft_hold_next() : NULL};
	int pid = sys_getpid();
	next->without |= l.hold && next->own_allocator;
	note(WIRE_LOG_EXEC, pid, path);
	set_exec_stamp(pid, arch_stamp());
	l.sandbox = heft_sandbox_leave();
	return l;
}

void heft_exec_failed(const struct heft_leaving *l)
{
	if (l->hold)
		heft_hold_failed(l->hold);
	heft_sandbox_return(l->sandbox);
	int pid = sys_getpid();
	note(WIRE_LOG_EXEC_FAILED, pid, "");
	set_exec_stamp(pid, 0); /* exit_tsc stays: another thread may have called exit */
}

const char *heft_first_of(char *const *argv)
{
	struct heft_looked l = {0};
	const char *first = NULL;
	return take_pointer(&l, argv, &first) > 0 ? first : NULL;
}
