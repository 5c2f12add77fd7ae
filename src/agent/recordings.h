/* Inside src/agent: the folder of saved recordings: writing them under names that are not taken, and room for each
 * user's. */
#ifndef HEFT_AGENT_RECORDINGS_H
#define HEFT_AGENT_RECORDINGS_H

#include "hosted/error.h"
#include "hosted/vector.h"

#include <stdint.h>
#include <sys/types.h>

struct recordings {
	const char *dir;
	uint64_t quota_bytes; /* of each user; 0: none */
	VECTOR(struct saved_file {
		uid_t uid;
		uint64_t bytes;
		int64_t time_ns;
		char *name;
	})
	files;
	VECTOR(uid_t) grown; /* users whose recordings were found to be larger than they were */
};

/* Opens the folder, whose path must stay, learns what is in it, and removes what a killed agent had begun. */
int recordings_open(struct recordings *r, const char *dir, uint64_t quota_bytes,
		    struct heft_error *err);
void recordings_close(struct recordings *r);

/* A file that has no name yet but one of its key; -1 and errno. */
int recordings_begin(struct recordings *r, uint64_t key);
/* Removes what was begun. */
void recordings_undo(struct recordings *r, uint64_t key);
/* Gives it to the user, and a name made of stem and pid. 0 and the name, or a negative code. */
int recordings_finish(struct recordings *r, uint64_t key, int fd, uid_t uid, const char *stem,
		      int32_t pid, char *name, size_t size, struct heft_error *err);
/* Looks how large they are now, because who owns a recording may have made it larger; `grown` are those users. */
void recordings_recount(struct recordings *r);
/* Removes the oldest recordings of a user who has more than the quota. Returns how many, and the bytes of them. */
uint32_t recordings_make_room(struct recordings *r, uid_t uid, uint64_t *bytes);

#endif
