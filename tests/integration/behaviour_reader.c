/* Prints the behaviour part of a recording's profile as JSON lines, for
 * test_behaviour.py: what the reports build their sentences from. Linked with
 * heft's libraries. */
#include "profile/profile_from_trace.h"

#include <inttypes.h>
#include <stdio.h>

static void print_place(const struct profile *p, uint32_t node)
{
	const struct profile_frame *f = node != PROFILE_NONE
						? &p->stacks.frames[p->stacks.nodes[node].frame]
						: NULL;
	printf("{\"function\":\"%s\",\"line\":%u}", f ? f->function : "", f ? f->line : 0);
}

int main(int argc, char **argv)
{
	struct heft_error err;
	struct profile *p;
	if (argc != 2 || profile_from_recording(&p, argv[1], NULL, &err)) {
		fprintf(stderr, "%s\n", argc == 2 ? err.message : "which file?");
		return 1;
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		printf("{\"place\":");
		print_place(p, s->node);
		printf(",\"frees\":%" PRIu64, s->frees);
		if (s->growth != PROFILE_NONE) {
			const struct profile_growth *g = &p->behaviour.growths[s->growth];
			printf(",\"growth\":{\"steps\":%" PRIu64 ",\"blocks\":%" PRIu64
			       ",\"final\":%" PRIu64 ",\"largest\":%" PRIu64
			       ",\"measured\":%" PRIu64 ",\"measured_bytes\":%" PRIu64
			       ",\"unused\":%" PRIu64 ",\"moved\":%" PRIu64 ",\"copied\":%" PRIu64
			       "}",
			       g->steps, g->blocks, g->final_bytes, g->largest_bytes,
			       g->measured_blocks, g->measured_bytes, g->unused_bytes,
			       g->moved_steps, g->copied_bytes);
		}
		if (s->handover != PROFILE_NONE) {
			const struct profile_handover *h = &p->behaviour.handovers[s->handover];
			printf(",\"handover\":{\"frees\":%" PRIu64 ",\"in_order\":%" PRIu64
			       ",\"backlog\":%" PRIu64 ",\"pairs\":%u}",
			       h->frees, h->in_order, h->backlog_blocks, h->threads_count);
		}
		printf(",\"releases\":[");
		for (uint32_t k = 0; k < s->release_count; k++) {
			const struct profile_release *r =
				&p->behaviour.releases[s->release_first + k];
			printf("%s{\"place\":", k ? "," : "");
			print_place(p, r->node);
			printf(",\"samples\":%" PRIu64 "}", r->samples);
		}
		printf("]}\n");
	}
	profile_free(p);
	return 0;
}
