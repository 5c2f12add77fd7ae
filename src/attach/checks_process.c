/* What heft attach would meet in a process that runs (checks.h). It is read through /proc alone: no thread is stopped,
 * and nothing is written. */
#include "attach/checks.h"

#include "attach/placement.h"
#include "attach/placement_session.h"
#include "attach/stop.h"
#include "attach/target_allocator.h"
#include "hosted/number_words.h"
#include "hosted/proc_text.h"
#include "session/attach_call.h"
#include "session/memory_limit.h"
#include "session/own_allocator.h"
#include "session/owner.h"
#include "session/process_root.h"
#include "session/process_start.h"
#include "session/session_dir.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { STATUS_BYTES = 4096, NAMES_MOST = 12 };

/* ---- the way in */

/* Whether heft has it already; then there is no second way in. */
static bool check_recorded(struct checks *c, pid_t pid)
{
	struct heft_error err = {0};
	char path[4200];
	pid_t guardian, holder = attach_holder(pid);
	uint64_t at = placement_find(pid, 0, &guardian);
	if (holder || (at && guardian)) {
		char way[80];
		snprintf(way, sizeof way, "heft detach %d ends that; heft top %d shows it.", pid,
			 pid);
		checks_add(c, "way in", CHECK_NO, way, "heft (process %d) is attached to it",
			   holder ? holder : guardian);
		return true;
	}
	if (at)
		checks_add(c, "left over", CHECK_WARNING, "The next heft attach removes it.",
			   "a heft that was killed has left its code in it");
	int rc = owner_file(pid, path, sizeof path, &err);
	if (rc == 0 || (rc == HEFT_EREFUSED && owner_is_readable(pid))) {
		checks_add(c, "way in", CHECK_NO, "heft top or heft view show it.",
			   "it was started with heft, which records it");
		return true;
	}
	return false;
}

static bool check_way_in(struct checks *c, pid_t pid)
{
	struct heft_error err = {0};
	struct stop *stop;
	if (stop_open(&stop, pid, &err)) {
		checks_add_error(c, "way in", CHECK_NO, &err);
		return false;
	}
	stop_close(stop);
	if (check_recorded(c, pid))
		return true;
	checks_add(c, "way in", CHECK_OK, NULL, "heft may attach to it");
	return true;
}

static void check_state(struct checks *c, pid_t pid)
{
	char text[1024];
	proc_text(text, sizeof text, "/proc/%d/stat", pid);
	const char *state = proc_stat_field(text, STAT_STATE);
	if (state && *state == 'T')
		checks_add(c, "state", CHECK_OK, "kill -CONT lets it go on.",
			   "it is stopped by a signal; heft can attach, and it stays stopped");
	else if (state && *state == 'D')
		checks_add(c, "state", CHECK_WARNING, "Wait until its disk has answered.",
			   "its first thread is in a wait that nothing interrupts");
}

/* ---- where it lives */

static void check_user(struct checks *c, const char *status)
{
	const char *line = proc_status_line(status, "Uid");
	unsigned long uid = line ? strtoul(line, NULL, 10) : 0;
	const struct passwd *user = getpwuid((uid_t)uid);
	checks_add(c, "user", CHECK_OK, NULL, "it runs as %s (uid %lu)",
		   user ? user->pw_name : "a user without a name", uid);
}

static void check_place(struct checks *c, pid_t pid)
{
	static const char *const kinds[] = {"ns/mnt", "ns/pid", "ns/user"};
	static const char *const words[] = {"mount", "pid", "user"};
	struct session_dir d = {.fd = -1};
	struct session_way way = {.fd = -1};
	struct heft_error err = {0};
	char others[64] = "";
	for (size_t i = 0; i < 3; i++)
		if (!process_shares(pid, kinds[i])) {
			size_t used = strlen(others);
			snprintf(others + used, sizeof others - used, "%s%s", used ? ", " : "",
				 words[i]);
		}
	if (session_dir_make(&d, &err))
		return; /* another check says it */
	const struct attach_options o = {.pid = pid, .session_dir = d.path};
	if (session_way_find(&way, &o, &err))
		checks_add_error(c, "place", CHECK_NO, &err);
	else if (way.fd >= 0)
		checks_add(c, "place", CHECK_OK, NULL,
			   "it sees other files (%s%s); heft hands it the folder of its session",
			   *others ? "a container, other namespaces: " : "chroot", others);
	else
		checks_add(c, "place", CHECK_OK, NULL, "it sees the files that heft sees%s%s",
			   *others ? "; other namespaces: " : "", others);
	session_way_fini(&way);
	session_dir_remove(&d);
}

static void check_sandbox(struct checks *c, const char *status)
{
	char own[STATUS_BYTES];
	long mode = proc_status_last(status, "Seccomp");
	proc_text(own, sizeof own, "/proc/self/status");
	const char *capabilities = proc_status_line(own, "CapEff");
	bool admin = capabilities && strtoull(capabilities, NULL, 16) >> 21 & 1;
	if (mode <= 0)
		checks_add(c, "sandbox", CHECK_OK, NULL, "it is in none (seccomp)");
	else if (mode == 1)
		checks_add(c, "sandbox", CHECK_NO,
			   "heft run records such a program until its sandbox begins.",
			   "seccomp's strict mode closes the time stamp counter, which heft needs");
	else if (!admin || proc_status_last(own, "Seccomp") > 0)
		checks_add(c, "sandbox", CHECK_NO,
			   "Run heft as root outside of any container, or start the program with "
			   "heft run.",
			   "seccomp: only root may read its filter, and the filter might kill the "
			   "program");
	else
		checks_add(c, "sandbox", CHECK_OK, NULL,
			   "seccomp: heft will read its %ld filters, and make no call there that "
			   "they forbid",
			   proc_status_last(status, "Seccomp_filters"));
}

/* ---- what it allocates with */

static void add_name(char *list, size_t size, const char *name)
{
	size_t used = strlen(list);
	snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

static void check_modules(struct checks *c, const struct target_modules *m, size_t allocator)
{
	char path[4400], shown[4200];
	for (size_t i = 0; i < m->count; i++) {
		const struct target_module *at = &m->items[i];
		if (!at->program && i != allocator)
			continue;
		snprintf(shown, sizeof shown, "%s", at->path);
		if (at->program)
			snprintf(path, sizeof path, "/proc/%d/exe", m->pid);
		else
			snprintf(path, sizeof path, "/proc/%d/root%s", m->pid, shown);
		checks_of_symbols(c, path, shown);
		if (at->program)
			checks_of_runtime(c, path, shown);
	}
}

/* The functions of one allocator: which would be hooked, and which cannot be. */
static void check_functions(struct checks *c, const struct target_modules *m,
			    const struct target_allocator *a, size_t own)
{
	char names[400] = "";
	const struct target_entry *refused = NULL;
	size_t count = 0;
	const size_t module = a->own[own].module;
	for (size_t i = 0; i < a->count; i++) {
		const struct target_entry *e = &a->entries[i];
		if (e->wire.allocator != own)
			continue;
		if (e->refused[0])
			refused = e;
		else if (count++ < NAMES_MOST)
			add_name(names, sizeof names, e->name);
	}
	if (count > NAMES_MOST)
		add_name(names, sizeof names, "...");
	checks_add(c, "allocator", CHECK_OK, NULL, "%s of %s: %s", a->own[own].name,
		   m->items[module].path, names);
	if (refused)
		checks_add(c, "allocator", CHECK_WARNING, "Its other functions are recorded.",
			   "calls of %s cannot be seen: %s", refused->name, refused->refused);
}

/* Allocators that the process has and none of whose functions would be hooked */
static void check_unseen(struct checks *c, const struct target_modules *m,
			 const struct target_allocator *a)
{
	struct wire_hooked files[WIRE_HOOKED];
	struct own_allocator_seen seen = {.files = files};
	struct own_allocator found;
	struct heft_error words = {0};
	for (size_t i = 0; i < a->own_count && i < WIRE_HOOKED; i++) {
		const struct target_mapping *at =
			&m->maps.items[m->items[a->own[i].module].mapping];
		files[seen.count++] = (struct wire_hooked){
			makedev(at->device_major, at->device_minor), at->inode};
	}
	if (!own_allocator_of_process(m->pid, seen, &found) || found.how == ELF_MALLOC_SHARED)
		return;
	/* Such a program is refused: its numbers would be near zero. */
	const bool refused = found.how == ELF_MALLOC_LIKELY && !found.library;
	memcpy(words.message, found.text, sizeof words.message - 1);
	checks_add_error(c, "allocator", refused ? CHECK_NO : CHECK_WARNING, &words);
}

static void check_allocator(struct checks *c, pid_t pid)
{
	struct target_modules modules;
	struct target_allocator a;
	struct heft_error err = {0};
	if (target_modules_read(&modules, pid, &err)) {
		checks_add_error(c, "allocator", CHECK_NO, &err);
		return;
	}
	bool found = !target_allocator_find(&a, &modules, &err) &&
		     !target_own_find(&a, &modules, NULL, 0, &err);
	if (!found)
		checks_add_error(c, "allocator", CHECK_NO, &err);
	for (size_t own = 0; found && own < a.own_count; own++)
		check_functions(c, &modules, &a, own);
	if (found)
		check_unseen(c, &modules, &a);
	check_modules(c, &modules, found ? a.module : SIZE_MAX);
	target_modules_fini(&modules);
}

/* ---- its limits */

static void check_limits(struct checks *c, pid_t pid, const char *status)
{
	struct memory_groups g = {0};
	struct rlimit memory = {RLIM_INFINITY, RLIM_INFINITY};
	char who[16];
	bool is_cgroup = false;
	snprintf(who, sizeof who, "%d", pid);
	memory_groups_of("/proc", who, &g);
	uint64_t limit = memory_limit("/proc", "/sys/fs/cgroup", &g, &is_cgroup);
	long threads = proc_status_last(status, "Threads");
	if (!prlimit(pid, RLIMIT_AS, NULL, &memory) && memory.rlim_cur != RLIM_INFINITY)
		checks_add(c, "memory", CHECK_WARNING,
			   "prlimit --as=unlimited --pid PID raises that.",
			   "it may have %s of address space, which heft needs a part of",
			   words_size(memory.rlim_cur).text);
	else
		checks_add(c, "memory", CHECK_OK, NULL, "%s%s; %s",
			   is_cgroup ? "its cgroup may have " : "no limit but the machine's ",
			   words_size(limit).text,
			   words_many((uint64_t)(threads > 0 ? threads : 1), "thread", "threads")
				   .text);
}

void checks_of_process(struct checks *c, pid_t pid)
{
	char status[STATUS_BYTES];
	bool is_open = check_way_in(c, pid);
	if (!proc_text(status, sizeof status, "/proc/%d/status", pid) || !process_start_ticks(pid))
		return;
	check_user(c, status);
	check_state(c, pid);
	check_sandbox(c, status);
	if (!is_open)
		return;
	check_place(c, pid);
	check_allocator(c, pid);
	check_limits(c, pid, status);
}
