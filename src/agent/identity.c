/* Who a process is, as the kernel says in /proc/PID/status. Everything that cannot be understood is nobody's. */
#include "agent/identity.h"

#include "hosted/proc_text.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOBODY = 65534 };

struct identity identity_without_rights(void)
{
	const struct passwd *user = getpwnam("heft");
	if (!user)
		user = getpwnam("nobody");
	struct identity who = {.uid = NOBODY, .gid = NOBODY};
	if (user && user->pw_uid != 0) {
		who.uid = user->pw_uid;
		who.gid = user->pw_gid ? user->pw_gid : NOBODY;
	}
	return who;
}

int identity_numbers(const char *status, const char *name, uint32_t *out, int most)
{
	const char *at = proc_status_line(status, name);
	int count = 0;
	if (!at)
		return -1;
	for (;;) {
		char *end;
		at += strspn(at, " \t");
		if (*at == '\n' || !*at)
			return count;
		unsigned long n = strtoul(at, &end, 10);
		if (end == at || count == most || n > UINT32_MAX)
			return -1;
		out[count++] = (uint32_t)n;
		at = end;
	}
}

/* Real, effective, saved and file system's are all the same. */
static bool all_same(const uint32_t ids[4])
{
	return ids[0] == ids[1] && ids[1] == ids[2] && ids[2] == ids[3];
}

static struct identity other(const struct identity *others, uid_t file_uid)
{
	struct identity who = *others;
	who.owner = file_uid;
	return who;
}

struct identity identity_of(pid_t pid, uid_t file_uid, const struct identity *others)
{
	char status[8192];
	uint32_t uids[4], gids[4];
	struct identity who = {.uid = file_uid, .owner = file_uid};
	if (!pid) {
		who.gid = others->gid; /* the file's may be that of a privileged program */
		who.any_groups = true;
		return file_uid ? who : other(others, file_uid);
	}
	if (!proc_text(status, sizeof status, "/proc/%d/status", pid) ||
	    identity_numbers(status, "Uid", uids, 4) != 4 ||
	    identity_numbers(status, "Gid", gids, 4) != 4 || !all_same(uids) || !all_same(gids) ||
	    uids[0] != file_uid)
		return other(others, file_uid);
	if (!file_uid) {
		who = other(others, file_uid);
		who.roots = true;
		return who;
	}
	if (!gids[0])
		return other(others, file_uid);
	int groups = identity_numbers(status, "Groups", who.groups, IDENTITY_GROUPS);
	if (groups < 0)
		return other(others, file_uid);
	who.gid = gids[0];
	who.group_count = (uint32_t)groups;
	for (int i = 0; i < groups; i++)
		if (!who.groups[i])
			return other(others, file_uid);
	return who;
}

bool identity_is_root(pid_t pid)
{
	char status[8192];
	uint32_t uids[4];
	return proc_text(status, sizeof status, "/proc/%d/status", pid) &&
	       identity_numbers(status, "Uid", uids, 4) == 4 && all_same(uids) && !uids[0];
}

bool identity_equal(const struct identity *a, const struct identity *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->owner == b->owner &&
	       a->roots == b->roots && a->group_count == b->group_count &&
	       memcmp(a->groups, b->groups, a->group_count * sizeof *a->groups) == 0;
}

bool identity_become(const struct identity *who)
{
	uid_t r, e, s;
	if (geteuid() != 0)
		return true;
	if (setgroups(who->group_count, who->groups) || setresgid(who->gid, who->gid, who->gid) ||
	    setresuid(who->uid, who->uid, who->uid))
		return false;
	/* No way back. */
	return !getresuid(&r, &e, &s) && r == who->uid && e == who->uid && s == who->uid &&
	       who->uid != 0 && setuid(0) != 0;
}
