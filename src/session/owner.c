/* The link between a process and its session file is the mapping itself: a pid may
 * have been given to another process, and in a container it is another number. What
 * /proc says of mappings is true in both cases.
 *
 * A path says little: it is a name in the process's own mount namespace, where others
 * choose what it leads to. So what was opened by a path counts only if it is the file
 * that the process has mapped, by device and inode as /proc says them of both. */
#include "session/owner.h"

#include "hosted/foreign_entry.h"
#include "hosted/proc_text.h"
#include "session/mappings.h"
#include "wire/session.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool has_mapped(pid_t pid, const struct stat *file)
{
	return mappings_look(pid, file) == MAPPINGS_HAVE;
}

/* Whether two processes run the same file: an agent's workers, which map what others made. */
static bool same_program(const char *a, const char *b)
{
	char path[64];
	struct stat first, second;
	snprintf(path, sizeof path, "/proc/%s/exe", a);
	if (stat(path, &first))
		return false;
	snprintf(path, sizeof path, "/proc/%s/exe", b);
	return !stat(path, &second) && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

/* Any process but `except` and us that has it mapped; not one of heft's if it is to be the owner. */
static pid_t find_mapper(const struct stat *file, pid_t except, bool owner)
{
	pid_t found = 0;
	DIR *proc = opendir("/proc");
	struct dirent *e;
	while (proc && !found && (e = readdir(proc)))
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != except &&
		    atoi(e->d_name) != getpid() && has_mapped(atoi(e->d_name), file) &&
		    !(owner && same_program(e->d_name, "self")))
			found = atoi(e->d_name);
	if (proc)
		closedir(proc);
	return found;
}

pid_t owner_of_file(const struct stat *file, pid_t likely)
{
	if (likely > 0 && owner_has_mapped(likely, file))
		return likely;
	return find_mapper(file, likely, true);
}

/* What /proc/PID/status says: the number by which the process knows itself, and its real user. */
static bool innermost(const char *pid, long *number, unsigned *uid)
{
	char text[4096];
	proc_text(text, sizeof text, "/proc/%s/status", pid);
	const char *user = proc_status_line(text, "Uid");
	*number = proc_status_last(text, "NSpid");
	return *number >= 0 && user && sscanf(user, "%u", uid) == 1;
}

pid_t owner_in_namespace(const struct stat *file, pid_t named)
{
	pid_t later[512], found = 0;
	int laters = 0;
	long number;
	unsigned uid;
	DIR *proc = opendir("/proc");
	struct dirent *e;
	while (proc && !found && (e = readdir(proc))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		if (!pid || pid == named || !innermost(e->d_name, &number, &uid) || number != named)
			continue;
		if (uid == file->st_uid)
			found = has_mapped(pid, file) ? pid : 0;
		else if (laters < (int)(sizeof later / sizeof *later))
			later[laters++] = pid;
	}
	if (proc)
		closedir(proc);
	for (int i = 0; i < laters && !found; i++)
		found = has_mapped(later[i], file) ? later[i] : 0;
	return found;
}

bool owner_has_mapped(pid_t pid, const struct stat *file)
{
	return pid != getpid() && has_mapped(pid, file); /* we have it mapped too */
}

bool owner_is_readable(pid_t pid)
{
	FILE *f = mappings_open(pid);
	if (f)
		fclose(f);
	return f;
}

static bool parent_of(const char *pid, char parent[16])
{
	char text[4096];
	proc_text(text, sizeof text, "/proc/%s/status", pid);
	const char *line = proc_status_line(text, "PPid");
	return line && sscanf(line, " %15[0-9]", parent) == 1;
}

pid_t owner_reader_of_file(const struct stat *file, pid_t pid)
{
	char reader[16], parent[16] = "";
	pid_t found = find_mapper(file, pid, false);
	snprintf(reader, sizeof reader, "%d", found);
	if (found && parent_of(reader, parent) && same_program(reader, parent))
		return atoi(parent); /* a worker's supervisor */
	return found;
}

/* A write lease is given only for a file that nobody else has open, and a mapping keeps it open. The
 * kernel knows of processes in every pid namespace. */
enum owner_use owner_file_use(int dirfd, const char *name)
{
	int fd = foreign_entry_open(dirfd, name, O_RDWR);
	if (fd < 0)
		return OWNER_USE_UNKNOWN;
	enum owner_use use = OWNER_NOT_IN_USE;
	if (fcntl(fd, F_SETLEASE, F_WRLCK))
		use = errno == EAGAIN ? OWNER_IN_USE : OWNER_USE_UNKNOWN;
	else
		fcntl(fd, F_SETLEASE, F_UNLCK);
	close(fd);
	return use;
}

/* Whether a process has mapped what we have mapped at this address. Compares what /proc says of both: of some
 * file systems stat(2) says another device. */
bool owner_maps_same(pid_t pid, const void *ours)
{
	char line[4200];
	struct mapping m, own;
	bool found = false;
	FILE *f = mappings_open(getpid());
	while (f && !found && mappings_line(f, line, sizeof line))
		found = strtoull(line, NULL, 16) == (uintptr_t)ours && mappings_parse(line, &own);
	if (f)
		fclose(f);
	f = found ? mappings_open(pid) : NULL;
	found = false;
	while (f && !found && mappings_line(f, line, sizeof line))
		found = mappings_parse(line, &m) && m.inode == own.inode && m.major == own.major &&
			m.minor == own.minor;
	if (f)
		fclose(f);
	return found;
}

static const char *below_root(pid_t pid, const char *path)
{
	char root[64];
	size_t length = (size_t)snprintf(root, sizeof root, "/proc/%d/root", pid);
	return strncmp(path, root, length) == 0 ? path + length : NULL;
}

int owner_open_folder(pid_t pid, const char *path)
{
	const char *inside = below_root(pid, path);
	if (!inside)
		return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Links there lead where they lead the process, never out of its root. */
	char root[64];
	snprintf(root, sizeof root, "/proc/%d/root", pid);
	int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = at < 0 ? -1
			: (int)syscall(SYS_openat2, at, *inside ? inside : "/", &how, sizeof how);
	if (at >= 0)
		close(at);
	return fd;
}

/* Session files are named PID.STAMP in hex, and have a size of their own. */
static bool is_session_file(pid_t pid, const char *path, unsigned long inode)
{
	struct stat st;
	const char *name = strrchr(path, '/');
	const char *dot = name ? strchr(name, '.') : NULL;
	if (!dot || strspn(name + 1, "0123456789abcdef") != (size_t)(dot - name - 1) ||
	    strspn(dot + 1, "0123456789abcdef") != strlen(dot + 1))
		return false;
	char folder[4200];
	if (snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path) >= (int)sizeof folder)
		return false;
	int at = owner_open_folder(pid, *folder ? folder : "/");
	bool is = at >= 0 && fstatat(at, name + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		  S_ISREG(st.st_mode) && (uint64_t)st.st_size == WIRE_FILE_BYTES &&
		  st.st_ino == inode;
	if (at >= 0)
		close(at);
	return is;
}

/* In /proc/PID/maps a newline in a path is written as \012. */
static void unescape(char *path)
{
	char *to = path;
	for (const char *at = path; *at; to++) {
		bool newline = strncmp(at, "\\012", 4) == 0;
		*to = newline ? '\n' : *at;
		at += newline ? 4 : 1;
	}
	*to = 0;
}

/* The path of this mapping as it can be opened from here: in a container it is another. */
static bool session_path(pid_t pid, const char *mapped, unsigned long inode, char *path,
			 size_t size)
{
	if (snprintf(path, size, "%s", mapped) < (int)size && is_session_file(pid, path, inode))
		return true;
	return snprintf(path, size, "/proc/%d/root%s", pid, mapped) < (int)size &&
	       is_session_file(pid, path, inode);
}

static int no_session(pid_t pid, bool library, bool removed, struct heft_error *err)
{
	if (removed)
		return heft_fail(
			err, HEFT_EREFUSED,
			"process %d is recorded exactly (every allocation), or its session file "
			"was removed: it cannot be switched\n"
			"heft run --sample, or HEFT_SAMPLE with heft agent, sample a program.",
			pid);
	if (library)
		return heft_fail(
			err, HEFT_ENOTFOUND,
			"process %d has heft's library, but is not sampled\n"
			"It needs HEFT_SAMPLE=512k and a directory HEFT_DIR it may write to.",
			pid);
	return heft_fail(err, HEFT_ENOTFOUND,
			 "process %d is not sampled by heft\n"
			 "'heft attach --sample %d' samples it from now on; heft run --sample, or "
			 "LD_PRELOAD and HEFT_SAMPLE (man heft-agent), from its start.",
			 pid, pid);
}

/* `opened`: its mappings could be opened, but there are none. */
static int no_mappings(pid_t pid, bool opened, int open_errno, struct heft_error *err)
{
	if (opened)
		return heft_fail(
			err, HEFT_ENOTFOUND,
			"process %d has ended (its parent has not taken its status yet), or "
			"is a thread of the kernel",
			pid);
	if (open_errno == ENOENT || open_errno == ESRCH)
		return heft_fail(err, HEFT_ENOTFOUND, "there is no process %d", pid);
	return heft_fail(err, HEFT_EREFUSED, "heft may not look into process %d\n%s", pid,
			 geteuid() ? "Ask as its user or as root."
				   : "Even root may not here: CAP_SYS_PTRACE is missing, or the "
				     "process is outside this container.");
}

int owner_file(pid_t pid, char *path, size_t size, struct heft_error *err)
{
	char line[4200];
	struct mapping m;
	bool library = false, removed = false;
	FILE *f = mappings_open(pid);
	int first = f ? fgetc(f) : EOF;
	if (first == EOF) {
		int rc = no_mappings(pid, f != NULL, errno, err);
		if (f)
			fclose(f);
		return rc;
	}
	ungetc(first, f);
	while (mappings_line(f, line, sizeof line)) {
		library |= strstr(line, WIRE_PRELOAD_NAME) != NULL;
		if (!mappings_parse(line, &m))
			continue;
		removed |= strstr(line, "/heft") && strstr(line, " (deleted)");
		unescape(line + m.path);
		if (session_path(pid, line + m.path, m.inode, path, size)) {
			fclose(f);
			return 0;
		}
	}
	fclose(f);
	return no_session(pid, library, library && removed, err);
}

/* include/uapi/linux/pidfd.h, which is newer than the headers of many systems. */
struct pidfd_facts {
	uint64_t mask, cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};
#define FACTS_EXIT (1u << 3)
#define GET_FACTS _IOWR(0xff, 11, struct pidfd_facts)

/* A process that has ended but was not waited for still has its line in /proc. */
static bool zombie_status(int pidfd, pid_t pid, int *status)
{
	char text[1024];
	proc_text(text, sizeof text, "/proc/%d/stat", pid);
	const char *state = proc_stat_field(text, STAT_STATE);
	const char *code = proc_stat_field(text, STAT_EXIT_CODE);
	if (!state || *state != 'Z' || !code)
		return false;
	/* Still the same process: nobody had waited for it after we read that. */
	if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0))
		return false;
	*status = atoi(code);
	return true;
}

bool owner_exit_status(int pidfd, pid_t pid, int *status)
{
	struct pidfd_facts facts = {.mask = FACTS_EXIT};
	if (pidfd < 0)
		return false;
	if (zombie_status(pidfd, pid, status))
		return true;
	if (ioctl(pidfd, GET_FACTS, &facts) || !(facts.mask & FACTS_EXIT))
		return false;
	*status = facts.exit_code;
	return true;
}
