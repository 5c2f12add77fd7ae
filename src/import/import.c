/* The table of formats, and the one way in for files of other tools.
 *
 * Order matters: text formats have first words of their own; pprof is protobuf
 * without a magic number, and comes last. */
#include "import/import.h"

#include "import/import_formats.h"
#include "import/import_source.h"

#include <stdio.h>
#include <string.h>

const struct importer importers[] = {
	{"jemalloc", "jemalloc heap_v2", import_jemalloc_recognise, import_jemalloc_load},
	{"gperftools", "gperftools heap text", import_gperftools_recognise, import_gperftools_load},
	{"heaptrack", "heaptrack (raw or interpreted)", import_heaptrack_recognise,
	 import_heaptrack_load},
	{"dhat", "DHAT JSON", import_dhat_recognise, import_dhat_load},
	{"pprof", "pprof", import_pprof_recognise, import_pprof_load},
	{NULL, NULL, NULL, NULL},
};

static int unknown_format(const struct import_source *in)
{
	char known[512] = "";
	for (const struct importer *i = importers; i->name; i++) {
		size_t used = strlen(known);
		snprintf(known + used, sizeof known - used, ", %s", i->summary);
	}
	return import_fail(in, 0, "not a profile: expected a heft recording%s", known);
}

static int load(struct profile **out, const struct importer *i, struct import_source *in)
{
	struct heft_error *err = in->err;
	struct profile *p = profile_new();
	if (!p)
		return import_no_memory(in);
	p->run.format = i->name;
	p->run.has = 0;
	p->run.end = PROFILE_END_UNKNOWN;
	if (in->selection) {
		p->chosen.apart = in->selection->apart;
		p->chosen.keep_calls = in->selection->calls;
	}
	if (err)
		err->code = 0;
	int rc = i->load(p, in);
	if (rc == HEFT_ENOMEM && err && !err->code)
		import_no_memory(in);
	if (rc == HEFT_EFORMAT && err && !err->code)
		import_expected(in, in->at, "fewer frames in all stacks together");
	p->run.file_bytes = in->read_bytes;
	if (rc == 0)
		*out = p;
	else
		profile_free(p);
	return rc;
}

/* Refuses what only a recording, with all its events, can answer. */
static int refuse_selection(const struct import_source *in, const struct importer *i,
			    const struct profile_selection *sel, struct heft_error *err)
{
	const char *what = sel->has_pid      ? "--pid"
			   : sel->thread     ? "--thread"
			   : sel->has_window ? "a time (--from, --to, --at)"
			   : sel->sizes      ? "--sizes"
					     : NULL;
	if (!what)
		return 0;
	return heft_fail(err, HEFT_EREFUSED,
			 "%s: %s needs a recording of heft's own: this file is %s, which holds "
			 "sums, not single allocations",
			 in->name, what, i->summary);
}

int import_profile(struct profile **out, const char *path, const struct profile_selection *sel,
		   struct heft_error *err)
{
	struct import_source *in = NULL;
	*out = NULL;
	int rc = import_source_open(&in, path, err);
	if (rc < 0)
		return rc;
	size_t length = (size_t)(in->end - in->at);
	if (length > IMPORT_HEAD_BYTES)
		length = IMPORT_HEAD_BYTES;
	if (profile_is_recording(in->at, length)) {
		bool piped = strcmp(path, "-") == 0;
		import_source_close(in);
		return heft_fail(err, HEFT_EREFUSED,
				 "%s: heft reads its own recordings as plain files, not %s",
				 piped ? "standard input" : path,
				 piped ? "through a pipe" : "compressed");
	}
	const struct importer *i = importers;
	while (i->name && !i->recognise(in->at, length))
		i++;
	if (!i->name)
		rc = unknown_format(in);
	if (rc == 0 && sel) {
		in->selection = sel;
		rc = refuse_selection(in, i, sel, err);
	}
	if (rc == 0)
		rc = load(out, i, in);
	import_source_close(in);
	return rc;
}
