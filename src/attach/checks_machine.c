/* What this machine allows (checks.h): tracing, the folder of a session, limits, memory cgroups, features of the
 * kernel. What only some recordings need is a warning here; it is a "no" for the process that needs it. */
#include "attach/checks.h"

#include "hosted/number_words.h"
#include "hosted/proc_text.h"
#include "session/memory_limit.h"
#include "session/session_dir.h"
#include "wire/session.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { CAPABILITY_SYS_PTRACE = 19, CAPABILITY_SYS_ADMIN = 21 };

static bool has_capability(unsigned number)
{
	char status[4096];
	proc_text(status, sizeof status, "/proc/self/status");
	const char *line = proc_status_line(status, "CapEff");
	return line && strtoull(line, NULL, 16) >> number & 1;
}

/* ---- tracing */

static void check_tracing(struct checks *c)
{
	char text[32];
	long scope = proc_text(text, sizeof text, "/proc/sys/kernel/yama/ptrace_scope")
			     ? strtol(text, NULL, 10)
			     : 0;
	bool may = has_capability(CAPABILITY_SYS_PTRACE);
	static const char lower[] = "Run heft as root, or: sudo sysctl kernel.yama.ptrace_scope=0";
	if (scope >= 3)
		checks_add(c, "attach", CHECK_WARNING,
			   "heft run works. The setting holds until the next boot.",
			   "nobody may trace a process: kernel.yama.ptrace_scope is %ld", scope);
	else if (scope && !may)
		checks_add(c, "attach", CHECK_WARNING, lower,
			   "only root may attach to running programs: kernel.yama.ptrace_scope is "
			   "%ld",
			   scope);
	else if (!geteuid() && !may)
		checks_add(c, "attach", CHECK_WARNING,
			   "Give the container that capability: docker run --cap-add=SYS_PTRACE",
			   "root may not trace here: the capability SYS_PTRACE is missing");
	else
		checks_add(c, "attach", CHECK_OK, NULL, "heft may attach to %s programs",
			   may ? "all" : "your own");
}

static void check_sandboxes(struct checks *c)
{
	char status[4096];
	proc_text(status, sizeof status, "/proc/self/status");
	bool is_in_one = proc_status_last(status, "Seccomp") > 0;
	bool may = has_capability(CAPABILITY_SYS_ADMIN) && !is_in_one;
	if (may)
		checks_add(c, "sandboxes", CHECK_OK, NULL,
			   "heft can attach to programs in a sandbox (seccomp) that has a filter");
	else
		checks_add(c, "sandboxes", CHECK_WARNING,
			   is_in_one ? "Run heft as root outside of the container."
				     : "Run heft as root to attach to such a program.",
			   "heft cannot attach to programs in a sandbox (seccomp)%s",
			   is_in_one ? ": it is in one itself" : "");
}

/* ---- the kernel */

/* include/uapi/linux/fs.h, which is newer than the headers of many systems */
struct scan_argument {
	uint64_t words[12];
};
#define SCAN_PAGEMAP _IOWR('f', 16, struct scan_argument)

static bool has_page_scan(void)
{
	struct scan_argument nothing = {{sizeof nothing}};
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool has = fd >= 0 && (!ioctl(fd, SCAN_PAGEMAP, &nothing) || errno != ENOTTY);
	if (fd >= 0)
		close(fd);
	return has;
}

static bool has_pidfd_getfd(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, pidfd, 0);
	bool has = fd >= 0 || (pidfd >= 0 && errno != ENOSYS);
	if (fd >= 0)
		close(fd);
	if (pidfd >= 0)
		close(pidfd);
	return has;
}

static bool has_remote_read(void)
{
	char from = 1, to = 0;
	struct iovec local = {&to, 1}, remote = {&from, 1};
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static void check_kernel(struct checks *c)
{
	struct utsname name;
	char missing[200] = "";
	uname(&name);
	const struct {
		bool there;
		const char *words;
	} features[] = {
		{has_pidfd_getfd(), "pidfd_getfd (Linux 5.6: attaching to containers)"},
		{has_remote_read(), "process_vm_readv (reading another process)"},
		{has_page_scan(), "PAGEMAP_SCAN (Linux 6.7: fast looks at all pages)"},
	};
	for (size_t i = 0; i < sizeof features / sizeof *features; i++)
		if (!features[i].there) {
			size_t used = strlen(missing);
			snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "",
				 features[i].words);
		}
	if (missing[0])
		checks_add(c, "kernel", CHECK_WARNING,
			   "heft works without. A newer kernel, or a container with fewer "
			   "restrictions, has it.",
			   "Linux %s lacks %s", name.release, missing);
	else
		checks_add(c, "kernel", CHECK_OK, NULL, "Linux %s has all that heft uses",
			   name.release);
}

/* ---- where a session is */

static void check_session(struct checks *c)
{
	struct session_dir d = {.fd = -1};
	struct heft_error err = {0};
	struct statvfs fs;
	if (session_dir_make(&d, &err)) {
		checks_add_error(c, "session", CHECK_NO, &err);
		return;
	}
	char base[sizeof d.path];
	snprintf(base, sizeof base, "%s", d.path);
	for (int up = 0; up < (d.hidden ? 2 : 1); up++) {
		char *slash = strrchr(base, '/');
		if (slash)
			*slash = 0;
	}
	uint64_t room = statvfs(d.path, &fs) ? 0 : (uint64_t)fs.f_bavail * fs.f_frsize;
	if (d.on_disk)
		checks_add(c, "session", CHECK_WARNING,
			   "Mount a tmpfs, or make /dev/shm larger, and set HEFT_DIR to it.",
			   "sessions go to %s, which is on a disk: recording is slower", base);
	else
		checks_add(c, "session", CHECK_OK, NULL, "sessions go to %s, in memory, %s free",
			   base, words_size(room).text);
	session_dir_remove(&d);
}

/* ---- limits */

static void check_limits(struct checks *c)
{
	struct rlimit files, size, memory;
	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_FSIZE, &size);
	getrlimit(RLIMIT_AS, &memory);
	if (memory.rlim_cur != RLIM_INFINITY)
		checks_add(c, "limits", CHECK_WARNING, "ulimit -v unlimited",
			   "a program may have %s of address space: heft needs %s of it",
			   words_size(memory.rlim_cur).text, words_size(WIRE_FILE_BYTES).text);
	else if (size.rlim_cur < WIRE_FILE_BYTES)
		checks_add(c, "limits", CHECK_WARNING, "ulimit -f unlimited",
			   "files may have %s: only a few processes can be recorded",
			   words_size(size.rlim_cur).text);
	else if (files.rlim_max < 256)
		checks_add(c, "limits", CHECK_WARNING, "ulimit -Hn 1048576",
			   "heft may open %llu files: it needs three for each process it records",
			   (unsigned long long)files.rlim_max);
	else
		checks_add(c, "limits", CHECK_OK, NULL,
			   "files, file sizes and address space suffice");
}

static void check_groups(struct checks *c)
{
	struct memory_groups g = {0};
	char path[700], text[32];
	bool is_cgroup = false;
	memory_groups_of("/proc", "self", &g);
	uint64_t limit = memory_limit("/proc", "/sys/fs/cgroup", &g, &is_cgroup);
	snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.oom.group", g.v2);
	bool together = g.has_v2 && proc_text(text, sizeof text, "%s", path) && text[0] == '1';
	if (together)
		checks_add(c, "memory", CHECK_WARNING,
			   "Run heft in another cgroup than the program: systemd-run --scope heft "
			   "...",
			   "if the cgroup here runs out of memory, heft is killed with it "
			   "(memory.oom.group)");
	else if (!g.has_v1 && !g.has_v2)
		checks_add(c, "memory", CHECK_OK, NULL,
			   "no memory cgroup is visible; reports show the machine's memory, %s",
			   words_size(limit).text);
	else
		checks_add(c, "memory", CHECK_OK, NULL, "%s, cgroup %s",
			   is_cgroup ? words_size(limit).text : "no limit", g.has_v2 ? "v2" : "v1");
}

/* ---- names */

static void check_servers(struct checks *c)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *library = dlopen("libdebuginfod.so.1", RTLD_NOW);
	if (library)
		dlclose(library);
	if (!urls || !*urls)
		checks_add(c, "debuginfod", CHECK_OK, NULL,
			   "no server is asked for debug files: DEBUGINFOD_URLS is not set");
	else if (!library)
		checks_add(c, "debuginfod", CHECK_WARNING, "apt install libdebuginfod1",
			   "DEBUGINFOD_URLS is set, but its client library is missing");
	else
		checks_add(c, "debuginfod", CHECK_OK, NULL, "debug files come from %s", urls);
}

static void check_perf(struct checks *c)
{
	char text[32];
	if (!proc_text(text, sizeof text, "/proc/sys/kernel/perf_event_paranoid"))
		return;
	checks_add(c, "perf", CHECK_OK, NULL,
		   "heft does not need perf events (kernel.perf_event_paranoid is %ld)",
		   strtol(text, NULL, 10));
}

void checks_of_machine(struct checks *c)
{
	check_session(c);
	check_tracing(c);
	check_sandboxes(c);
	check_kernel(c);
	check_limits(c);
	check_groups(c);
	check_servers(c);
	check_perf(c);
}
