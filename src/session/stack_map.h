/* From the stack nodes of one process (addresses) to the nodes and sites of the
 * recording (module + offset), which all processes share: the same code at
 * another address is the same site. Looking up a site adds what is new to the
 * map and writes nothing; stack_map_write defines it in the recording, before
 * anything is written that names it. */
#ifndef HEFT_SESSION_STACK_MAP_H
#define HEFT_SESSION_STACK_MAP_H

#include "hosted/hash_index.h"
#include "trace/trace.h"
#include "wire/session.h"

/* What the recording has; begins zeroed */
struct stack_map {
	struct trace_module *modules;
	uint32_t module_count, module_capacity;
	struct trace_node *nodes;
	uint32_t node_count, node_capacity;
	struct trace_site *sites;
	uint32_t site_count, site_capacity;
	struct hash_index node_ids, site_ids;
	char **names; /* that programs gave (heft.h): number n of the recording is names[n - 1] */
	uint32_t name_count, name_capacity;
	/* How many of each the recording has */
	struct stack_map_written {
		uint32_t modules, nodes, sites, names;
	} written;
};

struct process_module {
	uint64_t start, end, bias;
	uint32_t first_node, module;
};

struct exec_note {
	int32_t pid;
	uint64_t tsc;
	char *path;
	bool failed;
};

/* What one process has */
struct process_stacks {
	const struct wire_session *session;
	uint32_t *node_of;    /* process node -> recording node + 1; 0 not yet */
	uint32_t *site_of;    /* process node -> site + 1; 0 not yet */
	uint32_t known;       /* length of both */
	uint32_t log_read;    /* bytes of the module log that were read */
	uint32_t *unfinished; /* offsets of entries before log_read that were still being written */
	uint32_t unfinished_count, unfinished_capacity;
	struct process_module *modules;
	uint32_t module_count, module_capacity;
	uint32_t *
		name_of; /* WIRE_NAMES numbers of the recording, by the process's less one; NULL: none */
	struct exec_note *execs; /* of the log; the owner of the process takes them */
	uint32_t exec_count, exec_capacity;
};

void stack_map_fini(struct stack_map *m);
/* Defines in the recording what was added since the last call. The writer latches failures. */
void stack_map_write(struct stack_map *m, struct trace_writer *w);
void process_stacks_fini(struct process_stacks *p);

/* The site of blocks whose call stack nobody knows, under a name of heft's own, in the place of a module. */
int stack_map_named_site(struct stack_map *m, const char *name, uint32_t *site);
/* Reads new entries of the module log. HEFT_EFORMAT if they make no sense. */
int process_stacks_read_log(struct stack_map *m, struct process_stacks *p);
/* The site of node `id`, which a record names. HEFT_EFORMAT: there is no such node. */
int stack_map_site_slow(struct stack_map *m, struct process_stacks *p, uint32_t id, uint32_t *site);

/* The recording's number of a name; 0: none, or the process has not said which. */
static inline uint32_t stack_map_name(const struct process_stacks *p, uint32_t number)
{
	return p->name_of && number && number <= WIRE_NAMES ? p->name_of[number - 1] : 0;
}

static inline int stack_map_site(struct stack_map *m, struct process_stacks *p, uint32_t id,
				 uint32_t *site)
{
	if (__builtin_expect(id < p->known && p->site_of[id], 1)) {
		*site = p->site_of[id] - 1;
		return 0;
	}
	return stack_map_site_slow(m, p, id, site);
}

#endif
