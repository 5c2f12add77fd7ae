/* How severe findings are, with the floors under which nothing is; what concerns the profile itself and is a
 * note, each with the advice that fits its cause; and what is no advice at all. */
#include "findings/diagnosis.h"

#include "diagnosis_fixture.h"

/* ---- severity */

/* `lost` bytes of slack in a heap of `heap` bytes, in a process of `rss` bytes. */
static struct profile *slack_profile(uint64_t lost, uint64_t heap, uint64_t rss, const char *module,
				     const char *function)
{
	struct profile *p = new_profile(SECOND);
	char words[100];
	p->stacks.modules[fixture_module].path = module;
	snprintf(words, sizeof words, "main:1 %s", function);
	add_site(p, words, 1, 2 * lost);
	add_site(p, "main:1 rest:2", 1, heap - 2 * lost);
	struct profile_growth *g = add_growth(p, 0);
	g->steps = 10;
	g->measured_blocks = 1;
	g->measured_bytes = 2 * lost;
	g->unused_bytes = lost;
	p->totals.peak_rss_bytes = rss;
	return p;
}

#define KIB 1024u
#define MIB (1024u * KIB)

TEST(test_floors)
{
	static const struct {
		uint64_t lost, heap, rss;
		enum finding_severity severity;
		const char *why;
	} cases[] = {
		/* by the share of the heap: from 25 %, from 5 % */
		{25 * MIB, 100 * MIB, 0, FINDING_HIGH, "25.0 MiB is 25.0 % of the peak heap"},
		{25 * MIB - 1, 100 * MIB, 0, FINDING_MEDIUM, "high from 25 %"},
		{5 * MIB, 100 * MIB, 0, FINDING_MEDIUM, "5.0 MiB is 5.0 %"},
		{5 * MIB - 1, 100 * MIB, 0, FINDING_LOW, "medium from 5 %"},
		/* never high under 1 MiB */
		{MIB, 3 * MIB, 0, FINDING_HIGH, "33.3 %"},
		{MIB - 1, 3 * MIB, 0, FINDING_MEDIUM, "less than 1 MiB"},
		/* never high under 5 % of the peak RSS */
		{MIB, 3 * MIB, 20 * MIB, FINDING_HIGH, "33.3 %"},
		{MIB, 3 * MIB, 20 * MIB + 1, FINDING_MEDIUM, "5 % of the peak RSS"},
		/* never medium under 256 KiB, or under 1 % of the peak RSS: ls, bash, true */
		{256 * KIB, MIB, 0, FINDING_MEDIUM, "1 MiB"},
		{256 * KIB - 1, MIB, 0, FINDING_LOW, "256 KiB"},
		{100 * KIB, 200 * KIB, 3 * MIB, FINDING_LOW, "256 KiB"},
		{256 * KIB, MIB, 25600 * KIB, FINDING_MEDIUM, "1 MiB"},
		{256 * KIB, MIB, 25601 * KIB, FINDING_LOW, "1 % of the peak RSS"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = slack_profile(cases[i].lost, cases[i].heap, cases[i].rss,
						  "/home/prog", "push:2");
		struct findings *f = diagnose(p, 0);
		assert_int_equal(findings_count(f), 1);
		const struct finding *s = findings_get(f, 0);
		if (s->severity != cases[i].severity)
			fail_msg("case %zu is %s: %s", i, finding_severity_name(s->severity),
				 s->severity_reason);
		expect_text(s->severity_reason, cases[i].why);
		done(f, p);
	}
}

/* Rounding, slack and temporaries inside an interpreter are low, and nothing without a name. */
TEST(test_interpreters)
{
	static const struct {
		const char *module, *function;
		bool found;
		enum finding_severity severity;
	} cases[] = {
		{"/home/prog", "push:2", true, FINDING_HIGH},
		{"/home/prog", "prog+0x1234", true, FINDING_LOW}, /* nobody knows where that is */
		{"/usr/bin/perl", "Perl_sv_grow:2", true, FINDING_LOW},
		{"/usr/bin/python3.11", "python3.11+0x1234", false, FINDING_LOW},
		{"/usr/lib/libpython3.12.so.1.0", "libpython3.12.so.1.0+0x1", false, FINDING_LOW},
		{"/usr/bin/bash", "bash+0x1", false, FINDING_LOW},
		{"/usr/bin/luajit-2.1.0", "x+0x1", false, FINDING_LOW},
		/* these begin like one */
		{"/usr/bin/basher", "push:2", true, FINDING_HIGH},
		{"/usr/bin/node_exporter", "push:2", true, FINDING_HIGH},
		{"/usr/bin/perlcritic.real", "push:2", true, FINDING_HIGH},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = slack_profile(30 * MIB, 100 * MIB, 0, cases[i].module,
						  cases[i].function);
		struct findings *f = diagnose(p, 0);
		if (findings_count(f) != cases[i].found)
			fail_msg("case %zu: %u findings", i, findings_count(f));
		if (cases[i].found && findings_get(f, 0)->severity != cases[i].severity)
			fail_msg("case %zu: %s", i, findings_get(f, 0)->severity_reason);
		done(f, p);
	}
}

/* ---- quality */

static const struct evidence *evidence_of(const struct finding_note *n, const char *name)
{
	const struct finding like = {
		.evidence = n->evidence, .evidence_count = n->evidence_count, .summary = n->text};
	return evidence(&like, name);
}

/* What is uncertain is a note, however much of the profile it concerns. */
TEST(test_quality)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 prog+0x1234", 100, 6000);
	add_site(p, "main:9 named:3", 100, 4000);
	p->stacks.nodes[p->sites[1].node].flags = PROFILE_GUESSED;
	p->totals.dropped = 10; /* of 210: less than 5 % */
	p->totals.unknown_frees = 3;
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	assert_int_equal(findings_note_count(f), 4);
	const struct finding_note *n = note_with(f, "10 events (4.8 % of all) are missing");
	assert_true(n->warning);
	assert_int_equal(evidence_of(n, "dropped")->number, 10);
	expect_text(n->advice, "core of its own");
	n = note_with(f, "100.0 % of all frees");
	assert_true(evidence_of(n, "unknown_free_share")->share == 1);
	/* Both, where the evidence is the other one. */
	n = note_with(f, "40.0 % of the heap and 50.0 % of allocations come from stacks that were "
			 "partly guessed");
	assert_string_equal(n->about, "profile-quality");
	assert_true(evidence_of(n, "guessed_share")->share == 0.5);
	assert_string_equal(n->advice,
			    "Build prog with unwind tables (-fasynchronous-unwind-tables).");
	n = note_with(f,
		      "60.0 % of the heap comes from functions without names, most of it in prog");
	assert_true(evidence_of(n, "nameless_share")->share == 0.6);
	assert_int_equal(evidence_of(n, "nameless_modules")->count, 1);
	assert_string_equal(n->advice, "Build prog with -g, or keep its symbols.");
	assert_false(n->warning);
	done(f, p);
}

/* The answer is in doubt if a twentieth of the events is missing. */
TEST(test_events_are_missing)
{
	static const struct {
		uint64_t dropped;
		int severity; /* -1: no finding */
	} cases[] = {{499, -1},
		     {500, FINDING_MEDIUM},
		     {3166, FINDING_MEDIUM}, /* 24.998 % */
		     {3167, FINDING_HIGH}};  /* 25.004 % */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(1 * SECOND);
		add_site(p, "main:9 named:3", 9500, 4000);
		p->totals.dropped = cases[i].dropped;
		struct findings *f = diagnose(p, 0);
		bool found = cases[i].severity >= 0;
		assert_int_equal(findings_count(f), found);
		assert_int_equal(findings_note_count(f), !found); /* never both */
		if (found) {
			const struct finding *q = findings_get(f, 0);
			assert_int_equal(q->kind, FINDING_PROFILE_QUALITY);
			assert_int_equal(q->severity, cases[i].severity);
			assert_int_equal(q->site, PROFILE_NONE);
			assert_int_equal(q->condition_count, 1);
		}
		done(f, p);
	}
}

/* ... or if nobody knows who allocated a quarter of the heap. */
TEST(test_stacks_are_lost)
{
	for (int i = 0; i < 2; i++) {
		struct profile *p = new_profile(1 * SECOND);
		add_site(p, "main:9 lost:3", 100, i ? 25000 : 24999);
		add_site(p, "main:9 named:3", 100, i ? 75000 : 75001);
		p->stacks.nodes[p->sites[0].node].flags = PROFILE_LOST;
		struct findings *f = diagnose(p, 0);
		assert_int_equal(findings_count(f), i);
		assert_int_equal(findings_note_count(f), !i);
		if (i)
			expect_text(findings_get(f, 0)->summary,
				    "the stacks of 25.0 % of the heap");
		else
			note_with(f, "whose inner frames are lost");
		done(f, p);
	}
}

/* The words for one event, and for allocations that hold nothing at the peak. */
TEST(test_quality_in_words)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 named:3", 60, 4000);
	struct profile_site *s = add_site(p, "main:9 prog+0x1234", 0, 0);
	s->allocations = s->frees = 30;
	s = add_site(p, "main:9 other:4", 0, 0);
	s->allocations = s->frees = 10;
	p->stacks.nodes[s->node].flags = PROFILE_TRUNCATED;
	p->totals.dropped = 1;
	struct findings *f = diagnose(p, 0);
	note_with(f, "1 event (0.7 % of all) is missing"); /* of 100 made, 40 freed */
	note_with(f, "10.0 % of allocations come from stacks whose outer frames are missing");
	note_with(f,
		  "30.0 % of allocations come from functions without names, most of them in prog");
	done(f, p);
}

/* Which advice helps depends on the file. */
TEST(test_advice_fits_its_cause)
{
	static const struct {
		const char *module, *note, *advice;
	} cases[] = {
		{"/usr/bin/mawk", NULL, "Install the debug symbols of mawk (a -dbgsym package)"},
		{"/usr/local/bin/mine", NULL, "Build mine with -g"},
		{"/opt/x/server", "/opt/x/server was replaced since the recording: no names",
		 "Read the recording where server of that build is."},
		{"/opt/x/server", "/opt/x/server is gone or cannot be read",
		 "Read the recording where server of that build is."},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(1 * SECOND);
		p->stacks.modules[fixture_module].path = cases[i].module;
		add_site(p, "main:9 prog+0x1234", 100, 6000);
		if (cases[i].note)
			assert_int_equal(
				profile_add_note(p, PROFILE_NOTE_INFO, 0, "%s", cases[i].note), 0);
		struct findings *f = diagnose(p, 0);
		expect_text(note_with(f, "without names")->advice, cases[i].advice);
		done(f, p);
	}
	/* V8's builtins never have unwind tables. */
	struct profile *p = new_profile(1 * SECOND);
	p->stacks.modules[fixture_module].path = "/usr/bin/node";
	add_site(p, "main:9 Builtins_InterpreterEntryTrampoline run:3", 100, 6000);
	p->stacks.nodes[p->stacks.nodes[p->sites[0].node].parent].flags = PROFILE_GUESSED;
	struct findings *f = diagnose(p, 0);
	expect_text(note_with(f, "partly guessed")->advice, "V8's builtins in node have no unwind");
	expect_text(note_with(f, "partly guessed")->advice, "--perf-basic-prof");
	done(f, p);
	/* Generated code has no file. */
	p = new_profile(1 * SECOND);
	add_site(p, "main:9 anon+0x1234", 100, 6000);
	p->stacks.frames[p->stacks.nodes[p->sites[0].node].frame].module = PROFILE_NONE;
	f = diagnose(p, 0);
	expect_text(note_with(f, "without names")->advice, "generated code");
	done(f, p);
}

/* ---- runtimes */

/* A program of this module and function, with these bytes resident. */
static struct findings *runtime_of(struct profile *p, const char *module, const char *function,
				   uint64_t recorded, uint64_t anonymous, uint64_t rss)
{
	char words[100];
	p->stacks.modules[fixture_module].path = module;
	snprintf(words, sizeof words, "main:1 %s:2 named:3", function);
	add_site(p, words, 1, recorded);
	p->totals.peak_anonymous_bytes = anonymous;
	p->totals.peak_rss_bytes = rss;
	return diagnose(p, 0);
}

TEST(test_runtimes)
{
	static const struct {
		const char *module, *function;
		uint64_t recorded, anonymous, rss;
		const char *runtime; /* NULL: no note */
	} cases[] = {
		{"/usr/bin/python3.11", "f", 3 * MIB, 70 * MIB, 80 * MIB, "Python"},
		{"/usr/lib/libpython3.12.so.1.0", "f", 3 * MIB, 70 * MIB, 80 * MIB, "Python"},
		{"/x/jvm/libjvm.so", "f", 3 * MIB, 70 * MIB, 80 * MIB, "JVM"},
		{"/x/prog", "runtime.asmcgocall.abi0", 1, 70 * MIB, 80 * MIB, "Go"},
		{"/x/prog", "v8::internal::Heap::Allocate", 1, 70 * MIB, 80 * MIB, "V8"},
		{"/x/libcoreclr.so", "f", 1, 70 * MIB, 80 * MIB, ".NET"},
		/* names that only begin like these */
		{"/x/pythonic", "f", 1, 70 * MIB, 80 * MIB, NULL},
		{"/x/prog", "runtime.asmcgocallers", 1, 70 * MIB, 80 * MIB, NULL},
		{"/x/prog", "crosscall22", 1, 70 * MIB, 80 * MIB, NULL},
		/* half of the memory, and 8 MiB, must be missing */
		{"/usr/bin/python3", "f", 35 * MIB, 70 * MIB, 80 * MIB, "Python"},
		{"/usr/bin/python3", "f", 35 * MIB + 1, 70 * MIB, 80 * MIB, NULL},
		{"/usr/bin/python3", "f", 2 * MIB, 10 * MIB, 80 * MIB, "Python"},
		{"/usr/bin/python3", "f", 2 * MIB, 10 * MIB - 1, 80 * MIB, NULL},
		/* of a program that ended soon only the memory with the files is known: 16 MiB */
		{"/usr/bin/python3", "f", 4 * MIB, 0, 20 * MIB, "Python"},
		{"/usr/bin/python3", "f", 4 * MIB, 0, 20 * MIB - 1, NULL},
		{"/usr/bin/python3", "f", 4 * MIB, 0, 0, NULL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(SECOND);
		struct findings *f = runtime_of(p, cases[i].module, cases[i].function,
						cases[i].recorded, cases[i].anonymous,
						cases[i].rss);
		if (findings_note_count(f) != (cases[i].runtime != NULL))
			fail_msg("case %zu: %u notes", i, findings_note_count(f));
		if (cases[i].runtime) {
			const struct finding_note *n = findings_note(f, 0);
			assert_string_equal(n->about, "runtime");
			assert_string_equal(evidence_of(n, "runtime")->text, cases[i].runtime);
			assert_int_equal(evidence_of(n, "recorded_bytes")->number,
					 cases[i].recorded);
			assert_true(*n->advice != 0);
		}
		done(f, p);
	}
}

/* A stripped Go program is known by its file. */
TEST(test_stripped_go)
{
	struct profile *p = new_profile(SECOND);
	p->stacks.modules[fixture_module].go = true;
	struct findings *f = runtime_of(p, "/x/prog", "f", 1, 70 * MIB, 80 * MIB);
	assert_string_equal(evidence_of(findings_note(f, 0), "runtime")->text, "Go");
	done(f, p);
}

TEST(test_good_quality)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 named:3", 1000, 4000);
	add_site(p, "main:9 lib+0x88", 9, 4000);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	assert_int_equal(findings_note_count(f), 0);
	done(f, p);
	p = new_profile(0); /* nothing at all */
	f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	assert_int_equal(findings_note_count(f), 0);
	assert_null(findings_get(f, 0));
	assert_null(findings_note(f, 0));
	done(f, p);
}

UNIT_TESTS(NULL, NULL)
