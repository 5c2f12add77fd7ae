/* Prometheus' text format 0.0.4: every metric with its help and type, then a line for each process.
 *
 * A line is told from another by its labels alone, and two equal ones spoil the whole scrape: of
 * images with the same pid and program (after an exec, or a pid used again) only the latest one is
 * shown. Names come from strangers' programs: what Prometheus takes for markup is escaped, what is
 * no text is spelt out. */
#include "pprof/pprof_pages.h"

#include "hosted/name_words.h"
#include "hosted/program_name.h"
#include "pprof/latest_images.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where the number is */
enum of {
	REAL,
	COUNT,
	KNOWN, /* a count, left out where it is 0: not known */
	FLAG,
	SHARE, /* left out below 0 */
};

static const struct metric {
	const char *name, *type, *help;
	enum of of;
	size_t offset;
} metrics[] = {
#define AT(field) offsetof(struct source_process, field)
	{"heft_process_running", "gauge", "1 while the process runs, 0 when it has ended.", FLAG,
	 AT(running)},
	{"heft_live_bytes", "gauge", "Bytes allocated and not freed.", REAL, AT(live_bytes)},
	{"heft_live_objects", "gauge", "Blocks allocated and not freed.", REAL, AT(live_objects)},
	{"heft_peak_bytes", "gauge", "Greatest sum of live bytes seen.", REAL, AT(peak_bytes)},
	{"heft_allocated_bytes_total", "counter", "Bytes allocated so far.", REAL,
	 AT(allocated_bytes)},
	{"heft_allocated_objects_total", "counter", "Allocations so far.", REAL,
	 AT(allocated_objects)},
	{"heft_unseen", "gauge",
	 "1 if most of the memory of the process does not pass through malloc. If its profile is "
	 "refused (501), live and allocated are left out.",
	 FLAG, AT(partly)},
	{"heft_anonymous_peak_bytes", "gauge",
	 "Greatest resident memory of the process that belongs to no file.", KNOWN,
	 AT(anonymous_peak_bytes)},
	{"heft_rss_bytes", "gauge", "Resident memory of the process.", KNOWN, AT(rss_bytes)},
	{"heft_memory_limit_bytes", "gauge", "Memory the process may use.", KNOWN,
	 AT(memory_limit_bytes)},
	{"heft_sampling_enabled", "gauge", "1 if allocations are being profiled.", FLAG, AT(on)},
	{"heft_sample_rate_bytes", "gauge",
	 "Bytes allocated for each sample on average; 0 if every allocation is recorded.", COUNT,
	 AT(rate_bytes)},
	{"heft_samples_total", "counter", "Samples taken so far.", COUNT, AT(samples)},
	{"heft_dropped_samples_total", "counter", "Samples lost because a table was full.", COUNT,
	 AT(dropped)},
	{"heft_sampling_cost_ratio", "gauge",
	 "Share of the latest CPU time of the process that samples took.", SHARE, AT(cost_share)},
#undef AT
};

static void write_label(FILE *out, const char *text)
{
	char piece[WORDS_GLYPH];
	for (size_t n; (n = words_glyph(&text, piece)) > 0;) {
		if (n > 1 && piece[0] == '\\') /* spelt out: \xNN */
			putc('\\', out);
		else if (piece[0] == '\\' || piece[0] == '"')
			putc('\\', out);
		fwrite(piece, 1, n, out);
	}
}

static bool number_of(const struct metric *m, const struct source_process *p, char text[40])
{
	const char *at = (const char *)p + m->offset;
	uint64_t count = 0;
	double real = 0;
	switch (m->of) {
	case FLAG: count = *(const bool *)at; break;
	case COUNT:
	case KNOWN: memcpy(&count, at, sizeof count); break;
	case REAL:
		if (p->blind) /* a zero would say that it has no memory */
			return false;
		/* fall through */
	case SHARE:
		memcpy(&real, at, sizeof real);
		snprintf(text, 40, "%.15g", real);
		if (strtod(text, NULL) !=
		    real) /* counters may need all digits, shares look better */
			snprintf(text, 40, "%.17g", real);
		return real >= 0; /* below: not known */
	}
	snprintf(text, 40, "%" PRIu64, count);
	return m->of != KNOWN || count;
}

static void write_metric(FILE *out, const struct metric *m, const struct source_process *list,
			 const bool *replaced, uint32_t count)
{
	bool any = false;
	for (uint32_t i = 0; i < count; i++) {
		char number[40];
		if (replaced[i] || !number_of(m, &list[i], number))
			continue;
		if (!any)
			fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name,
				m->type);
		any = true;
		fprintf(out, "%s{pid=\"%" PRId32 "\",exe=\"", m->name, list[i].pid);
		write_label(out, list[i].exe);
		char name[PROGRAM_NAME];
		program_name(name, list[i].exe, list[i].command);
		if (!program_name_is_file(name, list[i].exe)) {
			fputs("\",name=\"", out);
			write_label(out, name);
		}
		fprintf(out, "\"} %s\n", number);
	}
}

static void write_own(FILE *out, const struct http_stats *stats)
{
	fprintf(out,
		"# HELP heft_build_info The version of heft that serves this.\n"
		"# TYPE heft_build_info gauge\n"
		"heft_build_info{version=\"%s\"} 1\n"
		"# HELP heft_http_connections Connections that are open.\n"
		"# TYPE heft_http_connections gauge\n"
		"heft_http_connections %" PRIu64 "\n"
		"# HELP heft_http_requests_total Requests answered.\n"
		"# TYPE heft_http_requests_total counter\n"
		"heft_http_requests_total %" PRIu64 "\n"
		"# HELP heft_http_errors_total Requests answered with an error.\n"
		"# TYPE heft_http_errors_total counter\n"
		"heft_http_errors_total{class=\"4xx\"} %" PRIu64 "\n"
		"heft_http_errors_total{class=\"5xx\"} %" PRIu64 "\n",
		HEFT_VERSION, stats->connections, stats->requests, stats->refused, stats->failed);
}

void metrics_write(FILE *out, const struct source_process *list, uint32_t count,
		   const struct http_stats *stats)
{
	bool *replaced = latest_images_replaced(list, count, true);
	for (size_t i = 0; replaced && i < sizeof metrics / sizeof *metrics; i++)
		write_metric(out, &metrics[i], list, replaced, count);
	free(replaced);
	write_own(out, stats);
}

void metrics_write_state(FILE *out, const struct source_state *state)
{
	fprintf(out,
		"# HELP heft_agent_processes Processes that the agent has, ended ones included.\n"
		"# TYPE heft_agent_processes gauge\n"
		"heft_agent_processes %" PRIu32 "\n"
		"# HELP heft_agent_refused_processes Processes that are not profiled because there "
		"is no place for more.\n"
		"# TYPE heft_agent_refused_processes gauge\n"
		"heft_agent_refused_processes %" PRIu64 "\n"
		"# HELP heft_agent_workers Workers that read the samples of processes.\n"
		"# TYPE heft_agent_workers gauge\n"
		"heft_agent_workers %" PRIu32 "\n"
		"# HELP heft_agent_worker_failures_total Workers that hung, died or took too much "
		"memory.\n"
		"# TYPE heft_agent_worker_failures_total counter\n"
		"heft_agent_worker_failures_total %" PRIu64 "\n"
		"# HELP heft_agent_attached_processes Programs that the agent is attached to by a "
		"rule (--attach-exe).\n"
		"# TYPE heft_agent_attached_processes gauge\n"
		"heft_agent_attached_processes %" PRIu32 "\n"
		"# HELP heft_agent_attaches_total Programs that the agent has attached to by a "
		"rule.\n"
		"# TYPE heft_agent_attaches_total counter\n"
		"heft_agent_attaches_total %" PRIu64 "\n"
		"# HELP heft_agent_attach_refusals_total Programs that a rule matches and that the "
		"agent could not attach to.\n"
		"# TYPE heft_agent_attach_refusals_total counter\n"
		"heft_agent_attach_refusals_total %" PRIu64 "\n",
		state->processes, state->refused, state->workers, state->killed, state->attached,
		state->attached_ever, state->attach_refused);
}
