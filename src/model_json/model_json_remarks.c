/* What programs said, in JSON: one list for each of marks, regions, stages, events and pools, and only where there is
 * something. Names are foreign; json_writer escapes them.
 *
 * A program may set a mark in every round of a loop. So limits cut lists of marks and regions, and a count says how many there
 * are. */
#include "model_json/model_json.h"

static void write_who(struct json_writer *w, const struct profile *p, uint32_t process,
		      uint32_t thread)
{
	if (process < p->process_count)
		json_write_key_int(w, "pid", p->processes[process].pid);
	if (thread < p->thread_count)
		json_write_key_int(w, "tid", p->threads[thread].tid);
}

static void write_marks(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p)
{
	const struct profile_remarks *r = &p->remarks;
	json_write_key(w, "marks");
	json_write_array(w);
	for (uint32_t i = 0; i < model_json_entries(l, r->mark_count); i++) {
		const struct profile_mark *m = &r->marks[i];
		json_write_object(w);
		json_write_key_uint(w, "time_ns", m->time_ns);
		model_json_key_name(w, l, "name", m->name);
		write_who(w, p, m->process, m->thread);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
	if (model_json_entries(l, r->mark_count) < r->mark_count)
		json_write_key_uint(w, "mark_count", r->mark_count);
}

static void write_regions(struct json_writer *w, const struct model_json_limits *l,
			  const struct profile *p)
{
	const struct profile_remarks *r = &p->remarks;
	json_write_key(w, "regions");
	json_write_array(w);
	for (uint32_t i = 0; i < model_json_entries(l, r->region_count); i++) {
		const struct profile_region *g = &r->regions[i];
		json_write_object(w);
		json_write_key_uint(w, "begin_ns", g->begin_ns);
		json_write_key_uint(w, "end_ns", g->end_ns);
		model_json_key_name(w, l, "name", g->name);
		json_write_key_string(w, "scope", g->of_thread ? "thread" : "process");
		json_write_key_bool(w, "open", g->is_open);
		json_write_key_bool(w, "inherited", g->is_inherited);
		write_who(w, p, g->process, g->thread);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
	if (model_json_entries(l, r->region_count) < r->region_count)
		json_write_key_uint(w, "region_count", r->region_count);
}

static void write_stage(struct json_writer *w, const struct model_json_limits *l, const char *key,
			const char *name)
{
	if (name) {
		model_json_key_name(w, l, key, name);
		return;
	}
	json_write_key(w, key);
	json_write_null(w);
}

static void write_stages(struct json_writer *w, const struct model_json_limits *l,
			 const struct profile *p)
{
	json_write_key(w, "stages");
	json_write_array(w);
	for (uint32_t i = 0; i < p->remarks.hop_count; i++) {
		const struct profile_hop *h = &p->remarks.hops[i];
		json_write_object(w);
		write_stage(w, l, "from", h->from);
		write_stage(w, l, "to", h->to);
		json_write_key_bool(w, "still_there", h->still_there);
		json_write_key_uint(w, "blocks", h->blocks);
		json_write_key_uint(w, "total_ns", h->total_ns);
		json_write_key_uint(w, "mean_ns", profile_hop_mean_ns(h));
		json_write_key_uint(w, "p50_ns", h->p50_ns);
		json_write_key_uint(w, "p99_ns", h->p99_ns);
		json_write_key_uint(w, "max_ns", h->max_ns);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

/* The function that calls heft.h, and that one's caller among the user's. */
static void write_place(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p, uint32_t node)
{
	uint32_t user = node == PROFILE_NONE ? node : profile_first_user_node(p, node);
	uint32_t at = user;
	model_json_place(w, l, p, user == PROFILE_NONE ? NULL : profile_node_frame(p, user));
	do
		at = at == PROFILE_NONE ? at : p->stacks.nodes[at].parent;
	while (at != PROFILE_NONE && !profile_node_frame(p, at)->user);
	model_json_key_name(w, l, "caller",
			    at == PROFILE_NONE ? NULL : profile_node_frame(p, at)->function);
}

static void write_events(struct json_writer *w, const struct model_json_limits *l,
			 const struct profile *p)
{
	const struct profile_remarks *r = &p->remarks;
	json_write_key(w, "program_events"); /* "events" are those of the recording */
	json_write_array(w);
	for (uint32_t i = 0; i < r->event_count; i++) {
		const struct profile_event *e = &r->events[i];
		json_write_object(w);
		model_json_key_name(w, l, "name", e->name);
		json_write_key_uint(w, "count", e->count);
		json_write_key_uint(w, "weight", e->weight);
		json_write_key(w, "sites");
		json_write_array(w);
		for (uint32_t k = 0; k < model_json_entries(l, e->sites); k++) {
			const struct profile_event_site *s = &r->event_sites[e->first + k];
			json_write_object(w);
			write_place(w, l, p, s->node);
			json_write_key_uint(w, "count", s->count);
			json_write_key_uint(w, "weight", s->weight);
			json_write_object_end(w);
		}
		json_write_array_end(w);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

static void write_pool_site(struct json_writer *w, const struct model_json_limits *l,
			    const struct profile *p, const struct profile_pool_site *s)
{
	json_write_object(w);
	write_place(w, l, p, s->node);
	json_write_key_uint(w, "objects", s->objects);
	json_write_key_uint(w, "bytes", s->bytes);
	json_write_key_uint(w, "given_back", s->freed);
	json_write_key_uint(w, "left_objects", s->left_objects);
	json_write_key_uint(w, "left_bytes", s->left_bytes);
	json_write_key_uint(w, "peak_objects", s->peak_objects);
	json_write_key_uint(w, "peak_bytes", s->peak_bytes);
	json_write_object_end(w);
}

static void write_pools(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p)
{
	const struct profile_remarks *r = &p->remarks;
	json_write_key(w, "pools");
	json_write_array(w);
	for (uint32_t i = 0; i < r->pool_count; i++) {
		const struct profile_pool *x = &r->pools[i];
		json_write_object(w);
		model_json_key_name(w, l, "name", x->name);
		json_write_key_uint(w, "pools", x->pools);
		json_write_key_uint(w, "destroyed", x->destroyed);
		json_write_key_uint(w, "objects", x->objects);
		json_write_key_uint(w, "bytes", x->bytes);
		json_write_key_uint(w, "given_back", x->freed);
		json_write_key_uint(w, "unknown_frees", x->unknown_frees);
		json_write_key_uint(w, "left_objects", x->left_objects);
		json_write_key_uint(w, "left_bytes", x->left_bytes);
		json_write_key_uint(w, "peak_objects", x->peak_objects);
		json_write_key_uint(w, "peak_bytes", x->peak_bytes);
		json_write_key_uint(w, "peak_time_ns", x->peak_time_ns);
		json_write_key(w, "sites");
		json_write_array(w);
		for (uint32_t k = 0; k < model_json_entries(l, x->sites); k++)
			write_pool_site(w, l, p, &r->pool_sites[x->first + k]);
		json_write_array_end(w);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

void model_json_remarks(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p)
{
	const struct profile_remarks *r = &p->remarks;
	if (r->mark_count)
		write_marks(w, l, p);
	if (r->region_count)
		write_regions(w, l, p);
	if (r->hop_count)
		write_stages(w, l, p);
	if (r->event_count)
		write_events(w, l, p);
	if (r->pool_count)
		write_pools(w, l, p);
}
