/* A guardian reads the memory of a program and the files that it has mapped, all of which may be hostile. So it has
 * the rights of that program: its user, its groups and its capabilities, no more of any. Whoever takes a guardian over has
 * gained nothing.
 *
 * The user id 0 alone is a right, too: it owns the system's files. A process of root in a container has that id, but
 * not those files. So root's programs are looked into only if they could reach what a guardian of root can reach, and
 * only if nobody but root can have written the file that they run. */
#include "agent/credentials.h"

#include "hosted/proc_text.h"
#include "session/process_root.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool all_same(const uint32_t ids[4])
{
	return ids[0] == ids[1] && ids[1] == ids[2] && ids[2] == ids[3];
}

static bool is_stopped(const char *status)
{
	uint32_t tracer;
	const char *state = proc_status_line(status, "State");
	char letter = state ? state[strspn(state, " \t")] : 0;
	return letter == 'T' || letter == 't' ||
	       identity_numbers(status, "TracerPid", &tracer, 1) != 1 || tracer;
}

const char *credentials_of(pid_t pid, struct credentials *c)
{
	char status[8192];
	uint32_t uids[4], gids[4];
	*c = (struct credentials){0};
	if (!proc_text(status, sizeof status, "/proc/%d/status", pid))
		return "";
	const char *capabilities = proc_status_line(status, "CapPrm");
	int groups = identity_numbers(status, "Groups", c->who.groups, IDENTITY_GROUPS);
	if (identity_numbers(status, "Uid", uids, 4) != 4 ||
	    identity_numbers(status, "Gid", gids, 4) != 4 || !capabilities || groups < 0)
		return "its user and groups cannot be read, or there are too many";
	c->who.uid = c->who.owner = uids[0];
	if (!all_same(uids) || !all_same(gids))
		return "it has the rights of more than one user or group";
	c->who.gid = gids[0];
	c->who.group_count = (uint32_t)groups;
	c->capabilities = strtoull(capabilities, NULL, 16);
	c->is_stopped = is_stopped(status);
	return NULL;
}

/* ---- root's programs */

const char *credentials_root_refuses(pid_t pid, const struct credentials *c)
{
	const uint64_t enters = 1ull << CAP_SYS_ADMIN | 1ull << CAP_SYS_PTRACE |
				1ull << CAP_SYS_CHROOT;
	char path[64];
	struct stat st;
	if (!process_shares(pid, "ns/user"))
		return "it is root of another user namespace only";
	/* Who has all of these could enter our file system: services that systemd gives one of their own. */
	if ((c->capabilities & enters) != enters &&
	    (!process_shares(pid, "ns/mnt") || !process_shares(pid, "root/.")))
		return "it is root in a container: heft's guardian of it would have more rights "
		       "than it has";
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	int exe = open(path, O_PATH | O_CLOEXEC);
	bool roots = exe >= 0 && !fstat(exe, &st) && S_ISREG(st.st_mode) && st.st_uid == 0 &&
		     !(st.st_mode & (S_IWGRP | S_IWOTH));
	if (exe >= 0)
		close(exe);
	return roots ? NULL : "it is root's process, and others than root can write its executable";
}

/* ---- becoming */

static bool set_capabilities(uint64_t wanted)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {0};
	if (syscall(SYS_capget, &head, sets))
		return false;
	for (int i = 0; i < 2; i++) {
		sets[i].permitted &= (uint32_t)(wanted >> 32 * i);
		sets[i].effective = sets[i].permitted;
		sets[i].inheritable = 0;
	}
	return !syscall(SYS_capset, &head, sets);
}

bool credentials_become(const struct credentials *c)
{
	const struct identity *who = &c->who;
	uid_t r, e, s;
	if (geteuid() != 0)
		return who->uid == geteuid();
	if (prctl(PR_SET_KEEPCAPS, 1) || setgroups(who->group_count, who->groups) ||
	    setresgid(who->gid, who->gid, who->gid) || setresuid(who->uid, who->uid, who->uid) ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) ||
	    !set_capabilities(c->capabilities) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return false;
	return !getresuid(&r, &e, &s) && r == who->uid && e == who->uid && s == who->uid;
}
