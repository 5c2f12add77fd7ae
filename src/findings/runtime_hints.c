/* Notes for programs of a language whose runtime keeps objects in memory that it maps itself: Python, a JVM,
 * Go, V8, .NET. heft sees what passes through malloc, which is then the smaller part. The note names the
 * runtime, and what shows the rest.
 *
 * The runtime is recognised by what is on the recorded stacks, modules and functions, not by the program's
 * name (a stripped Go program by a section of its file): any program may embed Python or V8, and a script may be called python. And there is a note only if
 * most of the resident memory is not in the recording: with PYTHONMALLOC=malloc it is, and nothing is said. */
#include "findings/diagnosis.h"

#include "findings/memory_holders.h"
#include "findings/site_names.h"
#include "hosted/ledger.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Most of the memory is missing, and it is worth a word. */
#define RUNTIME_LEAST_MISSING 0.5
#define RUNTIME_LEAST_BYTES (8u << 20)
/* Only the resident memory with the files in it is known of a program that ended soon. A runtime's files are
 * large. */
#define RUNTIME_LEAST_WITH_FILES (16u << 20)

enum runtime { RUNTIME_NONE, RUNTIME_PYTHON, RUNTIME_JVM, RUNTIME_GO, RUNTIME_V8, RUNTIME_DOTNET };

static const struct {
	const char *name, *what, *advice;
} words[] = {
	[RUNTIME_PYTHON] =
		{"Python",
		 "this is a Python program, and most of its memory is in Python's own arenas",
		 "Set PYTHONMALLOC=malloc in its environment and record again: then every "
		 "object passes through malloc. With python3 -X perf (from 3.12 on) the "
		 "stacks have Python's functions."},
	[RUNTIME_JVM] =
		{"JVM",
		 "this program runs on a JVM, which maps most of its memory itself, such as the "
		 "Java heap",
		 "heft shows what native code allocates. For Java objects use jcmd PID "
		 "GC.class_histogram or GC.heap_dump; -Xmx bounds them. With "
		 "-XX:NativeMemoryTracking=summary, jcmd PID VM.native_memory shows the rest."},
	[RUNTIME_GO] =
		{"Go", "this is a Go program, and most of its memory is in Go's own heap",
		 "heft run shows what C code allocates. For Go's objects serve net/http/pprof, or "
		 "call pprof.WriteHeapProfile: heft report and diff read Go's heap "
		 "profiles. GOMEMLIMIT bounds them."},
	[RUNTIME_V8] =
		{"V8", "this program runs JavaScript, and most of its memory is in the heap of V8",
		 "heft shows what native code and buffers take. For JavaScript objects use "
		 "node --heap-prof, or a heap snapshot (node --heapsnapshot-signal=SIGUSR2), which "
		 "Chrome's developer tools show. --max-old-space-size bounds them."},
	[RUNTIME_DOTNET] = {".NET",
			    "this is a .NET program, and most of its memory is in the managed heap",
			    "heft shows what native code allocates. For managed objects use "
			    "dotnet-gcdump collect -p PID; DOTNET_GCHeapHardLimit bounds them."},
};

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static enum runtime runtime_of_module(const char *name)
{
	if (begins(name, "libpython") ||
	    (begins(name, "python") && (!name[6] || isdigit((unsigned char)name[6]))))
		return RUNTIME_PYTHON;
	if (begins(name, "libjvm.so") || begins(name, "libj9vm"))
		return RUNTIME_JVM;
	if (begins(name, "libnode.so") || begins(name, "libv8.so") || begins(name, "libv8_"))
		return RUNTIME_V8;
	return begins(name, "libcoreclr.so") ? RUNTIME_DOTNET : RUNTIME_NONE;
}

/* Runtimes that are part of the program's own file. */
static enum runtime runtime_of_function(const char *function)
{
	static const char *const go[] = {"runtime.asmcgocall", "runtime.mcall",
					 "runtime.goexit",     "_cgo_sys_thread_start",
					 "x_cgo_thread_start", "crosscall2"};
	if (begins(function, "v8::internal::") || begins(function, "Builtins_"))
		return RUNTIME_V8;
	for (size_t i = 0; i < sizeof go / sizeof *go; i++)
		if (strcmp(function, go[i]) == 0 ||
		    (begins(function, go[i]) && function[strlen(go[i])] == '.'))
			return RUNTIME_GO;
	return RUNTIME_NONE;
}

/* The runtime on the stacks of this part; a JVM may load Python, so the order counts. */
static enum runtime find_runtime(const struct profile *p, const uint8_t *of_frame, bool *seen)
{
	bool found[RUNTIME_DOTNET + 1] = {false};
	memset(seen, 0, ((size_t)p->stacks.node_count + 1) * sizeof *seen);
	for (uint32_t i = 0; i < p->site_count; i++)
		for (uint32_t n = p->sites[i].node; n < p->stacks.node_count && !seen[n];
		     n = p->stacks.nodes[n].parent) {
			seen[n] = true;
			found[of_frame[p->stacks.nodes[n].frame]] = true;
		}
	static const enum runtime order[] = {RUNTIME_JVM, RUNTIME_DOTNET, RUNTIME_V8,
					     RUNTIME_PYTHON, RUNTIME_GO};
	for (size_t i = 0; i < sizeof order / sizeof *order; i++)
		if (found[order[i]])
			return order[i];
	return RUNTIME_NONE;
}

/* Adds the note if most of this memory is not in the recording. `process`: of several, or PROFILE_NONE. */
static int look_at(struct diagnosis *d, enum runtime runtime, const struct profile_totals *t,
		   uint32_t process)
{
	uint64_t resident = t->peak_anonymous_bytes ? t->peak_anonymous_bytes : t->peak_rss_bytes;
	uint64_t least = t->peak_anonymous_bytes ? RUNTIME_LEAST_BYTES : RUNTIME_LEAST_WITH_FILES;
	uint64_t recorded = t->peak_bytes + t->peak_slack_bytes;
	if (runtime == RUNTIME_NONE || recorded >= resident || resident - recorded < least ||
	    share_of(resident - recorded, resident) < RUNTIME_LEAST_MISSING)
		return 0;
	/* A ledger says who has it. One of an interpreter that had freed its objects by then does not. */
	struct memory_holders held;
	int rc = memory_holders(d, process == PROFILE_NONE ? 0 : process, false, &held);
	if (rc)
		return rc;
	if (held.other_bytes < RUNTIME_LEAST_BYTES)
		held.ledger = NULL;
	struct draft f = draft_begin(FINDING_PROFILE_QUALITY, PROFILE_NONE, 0);
	f.finding.summary = diagnosis_text(d, "%s: heft recorded %s of %s", words[runtime].what,
					   words_size(recorded).text, words_size(resident).text);
	if (held.ledger) {
		const char *figures = memory_holders_sentence(d, &held);
		f.finding.summary = f.finding.summary && figures
					    ? diagnosis_text(d, "%s; %s", f.finding.summary,
							     figures)
					    : NULL;
	}
	if (process != PROFILE_NONE)
		f.finding.summary = diagnosis_in_process(d, d->whole, process, f.finding.summary);
	f.finding.advice = words[runtime].advice;
	draft_text(&f, "runtime", words[runtime].name);
	draft_bytes(&f, "recorded_bytes", recorded);
	draft_bytes(&f, "resident_bytes", resident);
	if (held.ledger)
		memory_holders_evidence(d, &f, &held);
	if (process != PROFILE_NONE)
		draft_count(&f, "pid", (uint64_t)d->whole->processes[process].pid);
	return draft_add_note(d, &f, "runtime", false);
}

int note_runtime(struct diagnosis *d)
{
	const struct profile *p = d->p;
	uint8_t *of_frame = calloc((size_t)p->stacks.frame_count + 1, sizeof *of_frame);
	bool *seen = calloc((size_t)p->stacks.node_count + 1, sizeof *seen);
	bool said[RUNTIME_DOTNET + 1] = {false};
	int rc = of_frame && seen ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.frame_count && rc == 0; i++) {
		const struct profile_frame *f = &p->stacks.frames[i];
		enum runtime r = RUNTIME_NONE;
		if (f->module < p->stacks.module_count)
			r = p->stacks.modules[f->module].go
				    ? RUNTIME_GO
				    : runtime_of_module(profile_module_name(p, f->module));
		of_frame[i] = (uint8_t)(r ? r : runtime_of_function(f->function));
	}
	if (rc == 0 && p->process_count <= 1)
		rc = look_at(d, find_runtime(p, of_frame, seen), &p->totals, PROFILE_NONE);
	/* One note for each runtime: workers of one program are alike. */
	for (uint32_t i = 0; i < p->judged_count && rc == 0 && p->process_count > 1; i++) {
		const struct profile_judged *j = &p->judged[i];
		enum runtime r = j->process < p->process_count ? find_runtime(j->p, of_frame, seen)
							       : RUNTIME_NONE;
		uint32_t before = findings_note_count(d->out);
		if (r != RUNTIME_NONE && !said[r])
			rc = look_at(d, r, &p->processes[j->process].totals, j->process);
		said[r] |= findings_note_count(d->out) > before;
	}
	free(of_frame);
	free(seen);
	return rc;
}
