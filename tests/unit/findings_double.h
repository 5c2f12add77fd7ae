/* A hand-made list in place of src/findings, for the tests of reports: a queue and a costly object,
 * with evidence of every type. */
#ifndef HEFT_TESTS_FINDINGS_DOUBLE_H
#define HEFT_TESTS_FINDINGS_DOUBLE_H

#include "findings/finding.h"

struct findings {
	uint32_t count;
	const struct finding *list;
	uint32_t note_count;
	const struct finding_note *notes;
};

uint32_t findings_count(const struct findings *f)
{
	return f->count;
}

const struct finding *findings_get(const struct findings *f, uint32_t index)
{
	return index < f->count ? &f->list[index] : NULL;
}

uint32_t findings_note_count(const struct findings *f)
{
	return f->note_count;
}

const struct finding_note *findings_note(const struct findings *f, uint32_t index)
{
	return index < f->note_count ? &f->notes[index] : NULL;
}

const char *finding_kind_name(enum finding_kind kind)
{
	switch (kind) {
	case FINDING_UNBOUNDED_QUEUE: return "unbounded-queue";
	case FINDING_PER_INSTANCE_COST: return "per-instance-cost";
	default: return "growing-site";
	}
}

const char *finding_severity_name(enum finding_severity severity)
{
	return severity == FINDING_HIGH ? "high" : severity == FINDING_MEDIUM ? "medium" : "low";
}

static const char *const fixture_threads[] = {"worker", "\033[31mred", "c", "d", "e"};

static const struct evidence fixture_queue[] = {
	{.name = "producer_function", .type = EVIDENCE_TEXT, .text = "send_message"},
	{.name = "consumer_function", .type = EVIDENCE_TEXT, .text = "worker_loop"},
	{.name = "producer_threads", .type = EVIDENCE_TEXTS, .texts = fixture_threads, .count = 1},
	{.name = "consumer_threads", .type = EVIDENCE_TEXTS, .texts = fixture_threads, .count = 5},
	{.name = "backlog_blocks", .type = EVIDENCE_COUNT, .number = 4980},
	{.name = "backlog_bytes", .type = EVIDENCE_BYTES, .number = 5219040},
	{.name = "arrival_ns", .type = EVIDENCE_TIME_NS, .number = 1200},
	{.name = "service_ns", .type = EVIDENCE_TIME_NS, .number = 178000},
	{.name = "wait_growth_ns", .type = EVIDENCE_TIME_NS, .number = 176800},
};

static const struct evidence_part fixture_parts[] = {
	{"conn_new", "connections.c:42", 262144, 0.869, 1},
	{"conn_new", "connections.c:40", 14544, 0.048, PROFILE_NONE},
	{"std::vector<int, std::allocator<int> >::reserve(unsigned long)", NULL, 14400, 0.0477, 0},
	{"conn_new", "connections.c:44", 10240, 0.034, 0},
	{"conn_new", "connections.c:41", 404, 0.0013, 0},
	{"conn_new", "connections.c:30", 40, 0.0001, 0},
	{"conn_new", "connections.c:31", 0, 0, 0},
};

static const struct evidence fixture_object[] = {
	{.name = "function", .type = EVIDENCE_TEXT, .text = "conn_new"},
	{.name = "instances", .type = EVIDENCE_COUNT, .number = 300},
	{.name = "bytes_each", .type = EVIDENCE_BYTES, .number = 301772},
	{.name = "parts", .type = EVIDENCE_PARTS, .parts = fixture_parts, .count = 7},
};

static const struct evidence fixture_growth[] = {
	{.name = "bytes_per_second", .type = EVIDENCE_RATE, .number = 1258291},
	{.name = "freed_share", .type = EVIDENCE_SHARE, .share = 0.25},
	{.name = "dropped", .type = EVIDENCE_COUNT}, /* nothing: not shown */
	{.name = "per_second", .type = EVIDENCE_COUNT, .number = 61719},
};

static const struct condition fixture_conditions[] = {
	{.what = "blocks that another thread freed",
	 .unit = UNIT_COUNT,
	 .measured = 4980,
	 .limit = 100},
	{.what = "share of the blocks that did not overtake an earlier one",
	 .unit = UNIT_SHARE,
	 .measured = 0.99,
	 .limit = 0.9},
	{.what = "time between the last birth and the first free, compared with the whole run",
	 .unit = UNIT_SHARE,
	 .measured = 0.05,
	 .limit = 0.15,
	 .at_most = true},
	{.what = "bytes that waited", .unit = UNIT_BYTES, .measured = 5219040, .limit = 65536},
	{.what = "the consumer began before the producer ended",
	 .otherwise = "the consumer begins when the producer has ended",
	 .unit = UNIT_FACT,
	 .measured = 1,
	 .limit = 1},
};

#define FIXTURE_SMALL(text)                                                                        \
	{.kind = FINDING_GROWING_SITE, .bytes = 30, .site = PROFILE_NONE, .summary = text}

static const struct finding fixture_list[] = {
	{.kind = FINDING_UNBOUNDED_QUEUE,
	 .severity = FINDING_HIGH,
	 .bytes = 5219040,
	 .site = 1,
	 .summary = "Messages queue up without bound between f and worker_loop: 4,980 blocks (5.0 "
		    "MiB, 97.7 % of the peak heap) wait, and each waits 177 us longer than the one "
		    "before it.",
	 .advice = "Bound the queue, so that the producer waits, or let the consumer take several "
		   "messages at once.",
	 .evidence = fixture_queue,
	 .evidence_count = 9,
	 .severity_reason = "5.0 MiB is 97.7 % of the peak heap: high from 25 %, medium from 5 %.",
	 .rule = "One thread makes blocks, another frees them in order, and each block waits "
		 "longer "
		 "than the one before.",
	 .conditions = fixture_conditions,
	 .condition_count = 5},
	{.kind = FINDING_PER_INSTANCE_COST,
	 .severity = FINDING_MEDIUM,
	 .bytes = 301772,
	 .site = 2,
	 .summary = "300 objects of 301,772 B were made at conn_new.",
	 .advice = "Make the table smaller.",
	 .evidence = fixture_object,
	 .evidence_count = 4},
	{.kind = FINDING_GROWING_SITE,
	 .bytes = 30,
	 .site = PROFILE_NONE,
	 .summary = "It grows.",
	 .advice = "",
	 .evidence = fixture_growth,
	 .evidence_count = 4},
	FIXTURE_SMALL("Fourth."),
	FIXTURE_SMALL("Fifth."),
	FIXTURE_SMALL("Sixth."),
	FIXTURE_SMALL("Seventh."),
	FIXTURE_SMALL("Eighth."),
};

static const struct evidence fixture_nameless[] = {
	{.name = "nameless_share", .type = EVIDENCE_SHARE, .share = 0.5},
};

static const struct finding_note fixture_notes[] = {
	{.about = "profile-quality",
	 .text = "50.0 % of the heap comes from functions without names, most of it in libdull.so",
	 .advice = "Build libdull.so with -g, or keep its symbols.",
	 .evidence = fixture_nameless,
	 .evidence_count = 1},
	{.about = "runtime", .warning = true, .text = "Most of it is the runtime's.", .advice = ""},
};

static const struct findings fixture_findings = {8, fixture_list, 2, fixture_notes};
static const struct findings fixture_no_findings = {0};

#endif
