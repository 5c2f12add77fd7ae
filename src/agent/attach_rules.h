/* What `heft agent --attach-exe` needs from outside src/agent: the rules, and the process beside each program that a rule
 * matches, its guardian. */
#ifndef HEFT_AGENT_ATTACH_RULES_H
#define HEFT_AGENT_ATTACH_RULES_H

#include <stdint.h>
#include <sys/types.h>

struct attach_rules {
	const char *const *globs;
	uint32_t count; /* 0: nothing is attached to */
	int blob;       /* the file of what goes into programs, open */
	/* Called in a process of its own, which has the rights of the program, these two descriptors and no others. Attaches
	 * to the program, says so, and leaves it when it is told to or nobody is at the other end of the socket any
	 * more. Does not return. */
	void (*guard)(void *ctx, pid_t pid, int socket, int blob);
	void *ctx;
};

/* From a guardian to the supervisor; the other way there is one byte, "leave". */
enum guardian_says {
	GUARDIAN_ATTACHED = 1,
	GUARDIAN_REFUSED, /* it is not attached, because of this */
	GUARDIAN_TAKEN,   /* it is not, because heft profiles the program already */
	GUARDIAN_LEFT,    /* somebody asked for that: heft detach, or the supervisor */
	GUARDIAN_ENDED,   /* the program has ended */
};
struct guardian_message {
	uint32_t what;
	int32_t code; /* 0 or a negative heft_code */
	uint32_t threads;
	uint32_t by_caller; /* left: heft detach asked */
	uint32_t for_good;  /* refused: another attempt would be, too */
	uint64_t pause_ns;
	char text[1024]; /* why; or what stays in the program */
};

#endif
