/* /debug/pprof/ as Go's net/http/pprof answers it (headers, file names, status codes, texts), for one
 * process or many; /metrics and /healthz.
 *
 * An answer may need several calls (http_later): while another request makes the snapshot it can
 * share, and between the two snapshots of seconds=N. What it knows by then is its struct pending. */
#include "pprof/routes_pprof.h"

#include "hosted/monotonic.h"
#include "hosted/number_parse.h"
#include "hosted/program_name.h"
#include "pprof/pprof_pages.h"
#include "pprof/pprof_target.h"
#include "pprof/pprof_text.h"
#include "pprof/snapshots.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull

enum {
	LONGEST_SECONDS = 3600,
	MOST_DIFFERENCES = 128, /* at once: each holds a profile; one sender has half of the rest */
	USERS_DIFFERENCES = 16, /* ... of a user who sees only their own processes */
	ASK_AGAIN_NS = 3000000,
};

struct pprof_routes {
	struct source source;
	struct snapshots *snapshots;
	struct http_route table[6];
	pthread_mutex_t lock; /* of the list */
	struct pending *differences;
};

/* ---- profiles */

struct pending {
	struct pprof_routes *r;
	struct pending *next_difference; /* if it is counted */
	struct http_viewer viewer;
	uint64_t sender;
	struct snapshot_request request;
	struct snapshot *before, *now;
	bool allocs, text, counted;
	uint64_t seconds;
	uint64_t before_ns;  /* when the first of two was taken; 0: not yet */
	uint64_t between_ns; /* from there to the second; 0: not taken yet */
	char *asked;         /* symbol: the addresses */
};

/* False: there are too many. Nobody can take them all. */
static bool begin_difference(struct pending *v)
{
	struct pprof_routes *r = v->r;
	uint32_t others = 0, sent = 0, own = 0;
	pthread_mutex_lock(&r->lock);
	for (const struct pending *o = r->differences; o; o = o->next_difference) {
		*(o->sender == v->sender ? &sent : &others) += 1;
		own += o->viewer.sees == HTTP_SEES_UID && o->viewer.uid == v->viewer.uid;
	}
	v->counted = sent < (MOST_DIFFERENCES - others) / 2 &&
		     (v->viewer.sees != HTTP_SEES_UID || own < USERS_DIFFERENCES);
	if (v->counted) {
		v->next_difference = r->differences;
		r->differences = v;
	}
	pthread_mutex_unlock(&r->lock);
	return v->counted;
}

static void end_difference(struct pending *v)
{
	struct pending **at = &v->r->differences;
	pthread_mutex_lock(&v->r->lock);
	while (*at != v)
		at = &(*at)->next_difference;
	*at = v->next_difference;
	pthread_mutex_unlock(&v->r->lock);
}

static void pending_free(void *kept)
{
	struct pending *v = kept;
	snapshot_cancel(&v->request);
	snapshot_release(v->before);
	snapshot_release(v->now);
	if (v->counted)
		end_difference(v);
	free(v->asked);
	free(v);
}

static struct pending *pending_new(struct pprof_routes *r, const struct http_request *q,
				   uint64_t key, struct http_answer *a)
{
	struct pending *v = calloc(1, sizeof *v);
	if (!v) {
		pprof_refuse(a, 500, "not enough memory");
		return NULL;
	}
	v->r = r;
	v->viewer = q->viewer;
	v->sender = q->sender;
	v->request = (struct snapshot_request){
		.of = r->snapshots, .key = key, .since_ns = q->arrived_ns};
	return v;
}

/* The snapshot that is asked for. False: the answer is later, or an error. */
static bool get_snapshot(struct pending *v, struct snapshot **out, struct http_answer *a)
{
	struct heft_error err = {0};
	int rc = snapshot_take(&v->request, out, &err);
	if (rc == SNAPSHOT_LATER) {
		http_later(a, ASK_AGAIN_NS, v, pending_free);
	} else if (rc < 0) {
		pprof_refuse_with(a, &err);
		pending_free(v);
	}
	return rc == 0;
}

static void answer_bytes(struct pending *v, struct http_answer *a, char *bytes, size_t length)
{
	char disposition[64];
	if (v->text) {
		http_answer_body(a, 200, "text/plain; charset=utf-8", bytes, length);
		return;
	}
	snprintf(disposition, sizeof disposition, "attachment; filename=\"%s%s\"",
		 v->allocs ? "allocs" : "heap", v->seconds ? "-delta" : "");
	http_answer_header(a, "Content-Disposition", disposition);
	http_answer_body(a, 200, "application/octet-stream", bytes, length);
}

static void answer_whole(struct pending *v, struct http_answer *a)
{
	struct heft_error err = {0};
	char *bytes;
	size_t length;
	enum source_form form = v->allocs ? SOURCE_ALLOCS : SOURCE_HEAP;
	if (v->text)
		form = v->allocs ? SOURCE_ALLOCS_TEXT : SOURCE_HEAP_TEXT;
	int rc = snapshot_bytes(v->now, form, &bytes, &length, &err);
	if (rc == SNAPSHOT_LATER) {
		http_later(a, ASK_AGAIN_NS, v, pending_free);
		return;
	}
	if (rc < 0)
		pprof_refuse_with(a, &err);
	else
		answer_bytes(v, a, bytes, length);
	pending_free(v);
}

static void answer_difference(struct pending *v, struct http_answer *a)
{
	struct heft_error err = {0};
	char *bytes;
	size_t length;
	if (!v->between_ns)
		v->between_ns = monotonic_ns() - v->before_ns;
	int rc = snapshot_difference(v->now, v->before, v->between_ns,
				     v->allocs ? SOURCE_ALLOCS : SOURCE_HEAP, &bytes, &length,
				     &err);
	if (rc == SNAPSHOT_LATER) {
		http_later(a, ASK_AGAIN_NS, v, pending_free);
		return;
	}
	if (rc < 0)
		pprof_refuse_with(a, &err);
	else
		answer_bytes(v, a, bytes, length);
	pending_free(v);
}

/* From wherever it got to, until it is answered or has to wait. */
static void go_on(struct pending *v, struct http_answer *a)
{
	if (v->seconds && !v->before) {
		if (!get_snapshot(v, &v->before, a))
			return;
		v->before_ns = monotonic_ns();
		v->request.since_ns = UINT64_MAX;
		http_later(a, v->seconds * SECOND, v, pending_free);
		return;
	}
	if (v->request.since_ns == UINT64_MAX)
		v->request.since_ns = monotonic_ns();
	if (!v->now && !get_snapshot(v, &v->now, a))
		return;
	if (v->seconds)
		answer_difference(v, a);
	else
		answer_whole(v, a);
}

/* As Go's: a number in front, 0 for anything else. */
static bool wants_text(const struct http_request *q)
{
	const char *debug = http_query(q, "debug");
	return debug && strtol(debug, NULL, 10) != 0;
}

/* 0: not asked for. False: the answer says why not. */
static bool parse_seconds(const struct http_request *q, uint64_t *seconds, struct http_answer *a)
{
	const char *text = http_query(q, "seconds");
	int32_t n = 0;
	*seconds = 0;
	if (!text || !*text)
		return true;
	if (!pprof_parse_digits(text, strlen(text), &n) || !n)
		pprof_refuse(a, 400, "invalid value for \"seconds\" - must be a positive integer");
	else if (n > LONGEST_SECONDS)
		pprof_refuse(a, 400, "invalid value for \"seconds\" - 3600 is the most");
	else if (wants_text(q))
		pprof_refuse(a, 400, "seconds and debug params are incompatible");
	else
		*seconds = (uint64_t)n;
	return *seconds != 0;
}

static void refuse_off(struct http_answer *a, const struct source_process *p)
{
	struct pprof_page page;
	if (!pprof_page_open(&page, a))
		return;
	fprintf(page.out, "sampling is switched off in process %" PRId32 " (", p->pid);
	pprof_write_program(page.out, p);
	fprintf(page.out,
		")\nto switch it on: heft ctl %" PRId32 " sample=on\n"
		"or, with the server's token: curl -X POST -H 'Authorization: Bearer TOKEN' "
		"'http://HOST:PORT/debug/pprof/control?pid=%" PRId32 "&sample=on'\n",
		p->pid, p->pid);
	http_answer_header(a, "X-Go-Pprof", "1");
	pprof_page_answer(&page, a, 403, "text/plain; charset=utf-8");
}

/* The profile would be empty, or of something else than the program's memory. */
static void refuse_blind(struct http_answer *a, const struct source_process *p)
{
	struct pprof_page page;
	if (!pprof_page_open(&page, a))
		return;
	fprintf(page.out, "heft cannot see into process %" PRId32 " (", p->pid);
	pprof_write_name(page.out, p->exe);
	fputs(")\n", page.out);
	for (const char *line = p->unseen; *line;) {
		char one[sizeof p->unseen];
		size_t length = strcspn(line, "\n");
		memcpy(one, line, length);
		one[length] = 0;
		pprof_write_name(page.out, one);
		putc('\n', page.out);
		line += length + (line[length] != 0);
	}
	http_answer_header(a, "X-Go-Pprof", "1");
	pprof_page_answer(&page, a, 501, "text/plain; charset=utf-8");
}

static void answer_profile(struct pprof_routes *r, const struct http_request *q,
			   const struct pprof_target *t, struct http_answer *a)
{
	struct source_process p;
	uint64_t seconds;
	if (!parse_seconds(q, &seconds, a) || !pprof_find_process(&r->source, t, &p, a))
		return;
	if (p.running && p.sampled && !p.on) {
		refuse_off(a, &p);
		return;
	}
	if (p.blind) {
		refuse_blind(a, &p);
		return;
	}
	struct pending *v = pending_new(r, q, p.key, a);
	if (!v)
		return;
	v->allocs = strcmp(t->name, "allocs") == 0;
	v->text = wants_text(q);
	v->seconds = seconds;
	if (seconds && !begin_difference(v)) {
		http_answer_header(a, "Retry-After", "10");
		pprof_refuse(a, 503,
			     "too many requests with \"seconds\" at once; please try again later");
		pending_free(v);
		return;
	}
	go_on(v, a);
}

/* ---- the others */

static void answer_cmdline(struct pprof_routes *r, const struct pprof_target *t,
			   struct http_answer *a)
{
	struct source_process p;
	if (!pprof_find_process(&r->source, t, &p, a))
		return;
	size_t length = p.command_bytes ? p.command_bytes - 1 : 0; /* no NUL behind the last */
	char *copy = malloc(length + 1);
	if (!copy) {
		pprof_refuse(a, 500, "not enough memory");
		return;
	}
	memcpy(copy, p.command, length);
	http_answer_body(a, 200, "text/plain; charset=utf-8", copy, length);
}

static void go_on_symbol(struct pending *v, struct http_answer *a)
{
	struct heft_error err = {0};
	char *bytes;
	size_t length;
	if (!v->now && !get_snapshot(v, &v->now, a))
		return;
	int rc = snapshot_symbols(v->now, v->asked, &bytes, &length, &err);
	if (rc == SNAPSHOT_LATER) {
		http_later(a, ASK_AGAIN_NS, v, pending_free);
		return;
	}
	if (rc < 0)
		pprof_refuse_with(a, &err);
	else
		http_answer_body(a, 200, "text/plain; charset=utf-8", bytes, length);
	pending_free(v);
}

static void answer_symbol(struct pprof_routes *r, const struct http_request *q,
			  const struct pprof_target *t, struct http_answer *a)
{
	struct source_process p;
	const char *asked = strcmp(q->method, "POST") == 0 ? q->body : q->query;
	if (!strcasestr(asked, "0x")) { /* whether there are symbols at all */
		http_answer_text(a, 200, "num_symbols: 1\n");
		return;
	}
	if (!pprof_find_process(&r->source, t, &p, a))
		return;
	struct pending *v = pending_new(r, q, p.key, a);
	if (!v)
		return;
	v->asked = strdup(asked);
	if (!v->asked) {
		pending_free(v);
		pprof_refuse(a, 500, "not enough memory");
		return;
	}
	go_on_symbol(v, a);
}

static bool parse_control(const struct http_request *q, struct source_control *c,
			  struct http_answer *a)
{
	const char *sample = http_query(q, "sample"), *rate = http_query(q, "rate");
	*c = (struct source_control){.set_on = sample != NULL, .set_rate = rate != NULL};
	if (sample) {
		c->automatic = strcmp(sample, "auto") == 0;
		c->on = c->automatic || strcmp(sample, "on") == 0;
	}
	if (sample && !c->on && strcmp(sample, "off") != 0)
		pprof_refuse(a, 400, "invalid value for \"sample\" - on, off or auto");
	else if (rate && size_parse(rate, &c->rate_bytes))
		pprof_refuse(a, 400, "invalid value for \"rate\" - bytes as in 512k or 1M");
	else if (!sample && !rate)
		pprof_refuse(a, 400,
			     "nothing to switch: sample=on, sample=off, sample=auto or rate=1M");
	else
		return true;
	return false;
}

static void answer_control(struct pprof_routes *r, const struct http_request *q,
			   const struct pprof_target *t, struct http_answer *a)
{
	struct source_process p;
	struct source_control c;
	struct heft_error err = {0};
	if (!q->viewer.known) { /* it may be any user of the machine */
		pprof_refuse(a, 403,
			     "this server has no token, so nothing can be switched over HTTP\n"
			     "start it with --token-file FILE, or use: heft ctl PID sample=on");
		return;
	}
	if (!parse_control(q, &c, a) || !pprof_find_process(&r->source, t, &p, a))
		return;
	if (!r->source.control || !p.running || !p.sampled) {
		http_answer_text(a, 409, "process %" PRId32 " %s\n", p.pid,
				 p.running ? "is not sampled: it has nothing to switch"
					   : "has ended");
		return;
	}
	if (r->source.control(r->source.ctx, p.key, &c, &err) < 0) {
		pprof_refuse_with(a, &err);
		return;
	}
	http_answer_text(a, 200, "process %" PRId32 ":%s%s%s\n", p.pid,
			 c.automatic ? " sampling auto"
			 : !c.set_on ? ""
			 : c.on      ? " sampling on"
				     : " sampling off",
			 c.set_on && c.set_rate ? "," : "", c.set_rate ? " rate set" : "");
}

static void answer_index(struct pprof_routes *r, const struct http_request *q,
			 const struct pprof_target *t, struct http_answer *a)
{
	struct pprof_list list;
	struct pprof_page p;
	if (!pprof_describe_all(&r->source, t, &list, a))
		return;
	if (pprof_page_open(&p, a)) {
		pprof_write_index(p.out, &list, strchr(q->rest, '/') ? "../" : "",
				  http_query(q, "token"));
		pprof_page_answer(&p, a, 200, "text/html; charset=utf-8");
		http_answer_header(a, "Content-Security-Policy",
				   "default-src 'none'; style-src 'unsafe-inline'; "
				   "frame-ancestors 'none'; base-uri 'none'");
		http_answer_header(a, "Referrer-Policy", "no-referrer");
	}
	free(list.processes);
}

/* ---- dispatch */

static void answer_get(struct pprof_routes *r, const struct http_request *q,
		       const struct pprof_target *t, struct http_answer *a)
{
	if (!*t->name)
		answer_index(r, q, t, a);
	else if (strcmp(t->name, "heap") == 0 || strcmp(t->name, "allocs") == 0)
		answer_profile(r, q, t, a);
	else if (strcmp(t->name, "cmdline") == 0)
		answer_cmdline(r, t, a);
	else if (strcmp(t->name, "symbol") == 0)
		answer_symbol(r, q, t, a);
	else if (strcmp(t->name, "control") == 0)
		pprof_refuse_method(a, "POST");
	else
		pprof_refuse(a, 404, "Unknown profile; there are heap and allocs");
}

static void answer_pprof(void *ctx, const struct http_request *q, struct http_answer *a)
{
	struct pprof_routes *r = ctx;
	struct pending *v = q->kept;
	struct pprof_target t;
	if (v && v->asked)
		go_on_symbol(v, a);
	else if (v)
		go_on(v, a);
	else if (!pprof_parse_target(q, &t, a))
		;
	else if (strcmp(q->method, "GET") == 0)
		answer_get(r, q, &t, a);
	else if (strcmp(t.name, "symbol") == 0)
		answer_symbol(r, q, &t, a);
	else if (strcmp(t.name, "control") == 0)
		answer_control(r, q, &t, a);
	else
		pprof_refuse_method(a, "GET, HEAD");
}

static void answer_no_slash(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	http_answer_header(a, "Location", "/debug/pprof/");
	http_answer_text(a, 301, "/debug/pprof/\n");
}

static void answer_metrics(void *ctx, const struct http_request *q, struct http_answer *a)
{
	struct pprof_routes *r = ctx;
	const struct pprof_target all = {.viewer = q->viewer};
	struct pprof_list list;
	struct http_stats stats;
	struct pprof_page p;
	if (!pprof_describe_all(&r->source, &all, &list, a))
		return;
	http_request_stats(q, &stats);
	if (pprof_page_open(&p, a)) {
		metrics_write(p.out, list.processes, list.count, &stats);
		if (r->source.state && q->viewer.sees == HTTP_SEES_ALL) {
			struct source_state state;
			r->source.state(r->source.ctx, &state);
			metrics_write_state(p.out, &state);
		}
		pprof_page_answer(&p, a, 200, "text/plain; version=0.0.4; charset=utf-8");
	}
	free(list.processes);
}

static void answer_health(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	http_answer_text(a, 200, "ok\n");
}

int pprof_routes_new(struct pprof_routes **out, const struct source *s)
{
	struct pprof_routes *r = calloc(1, sizeof *r);
	if (r && !(r->snapshots = snapshots_new(s))) {
		free(r);
		r = NULL;
	}
	*out = r;
	if (!r)
		return HEFT_ENOMEM;
	r->source = *s;
	pthread_mutex_init(&r->lock, NULL);
	r->table[0] = (struct http_route){"GET", "/debug/pprof/*", answer_pprof, r, false, false};
	r->table[1] = (struct http_route){"POST", "/debug/pprof/*", answer_pprof, r, false, false};
	r->table[2] = (struct http_route){"GET", "/debug/pprof", answer_no_slash, r, false, true};
	r->table[3] = (struct http_route){"GET", "/metrics", answer_metrics, r, false, false};
	r->table[4] = (struct http_route){"GET", "/healthz", answer_health, r, true, true};
	return 0;
}

const struct http_route *pprof_routes_table(const struct pprof_routes *r)
{
	return r->table;
}

void pprof_routes_free(struct pprof_routes *r)
{
	if (!r)
		return;
	snapshots_free(r->snapshots);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
