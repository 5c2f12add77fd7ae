/* Inside src/agent: as whom a process's samples are read. */
#ifndef HEFT_AGENT_IDENTITY_H
#define HEFT_AGENT_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { IDENTITY_GROUPS = 64 };

struct identity {
	uid_t uid;
	gid_t gid;
	uint32_t group_count;
	gid_t groups[IDENTITY_GROUPS];
	uid_t owner; /* of the session files: whoever is not one plain user is apart from the others */
	bool roots;      /* stands for root: only root's own processes have it */
	bool any_groups; /* of a process that has ended: its groups are not known */
};

/* The user of programs whose own user cannot be taken: "heft", or else "nobody". */
struct identity identity_without_rights(void);
/* The user and the groups of a running process, if that is one plain user who owns the session file, and not root. In
 * all other cases `others`: daemons that gave up their privileges, programs that have some by their file's mode, and
 * root, apart from the rest. pid 0: it has ended; then its file alone says whose it was. */
struct identity identity_of(pid_t pid, uid_t file_uid, const struct identity *others);
bool identity_is_root(pid_t pid); /* of this running process */
bool identity_equal(const struct identity *a, const struct identity *b);
/* The numbers on the line `name` of the text of /proc/PID/status. Returns how many; -1: there is no such line, or there
 * are more. */
int identity_numbers(const char *status, const char *name, uint32_t *out, int most);
/* Becomes this user for good. False: it cannot. Does nothing if we are not root. */
bool identity_become(const struct identity *who);

#endif
