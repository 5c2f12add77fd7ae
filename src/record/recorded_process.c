/* A recorder's process from its session file to its end: it is a struct process with more behind it, so that
 * everything that takes one (sets, samples, memory) takes this too.
 *
 * Invariant: a sampled process has no records, so its reorder stays empty and is never used. */
#include "record/recorded_process.h"

static void fini(struct process *p)
{
	reorder_fini(&recorded(p)->reorder);
	if (recorded(p)->own_new.looked)
		own_new_close(&recorded(p)->own_new.program);
	mapped_memory_free(recorded(p)->mapped);
}

int recorded_process_open(struct process **out, int dirfd, const char *name, struct heft_error *err)
{
	struct process *p;
	int rc = process_open_larger(&p, sizeof(struct recorded_process), fini, dirfd, name, err);
	if (rc)
		return rc;
	struct recorded_process *r = recorded(p);
	if (!p->view.sampled && reorder_init(&r->reorder)) {
		process_free(p);
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	}
	r->reorder.is_child = p->child;
	r->ending = (struct stream){.view = &p->view, .is_end = true};
	*out = p;
	return 0;
}
