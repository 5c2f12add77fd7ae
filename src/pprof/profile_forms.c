/* Everything that is served of a profile is made here, from the profile alone. So it can be made wherever the
 * profile is: in the server's own process, or in a worker that has no network. */
#include "pprof/profile_forms.h"

#include "export/export.h"
#include "pprof/pprof_text.h"
#include "profile/profile_delta.h"

#include <stdlib.h>

static int no_memory(struct heft_error *err)
{
	return heft_fail(err, HEFT_ENOMEM, "not enough memory for a profile");
}

static int write_difference(FILE *out, const struct profile *p, const struct source_wish *wish,
			    enum measure_id measure, struct heft_error *err)
{
	struct profile_delta d;
	int rc = profile_delta_init(&d, wish->before, p, wish->between_ns, err);
	if (rc == 0)
		rc = export_pprof_delta(out, &d, measure, err);
	profile_delta_fini(&d);
	return rc;
}

static int write_form(FILE *out, const struct profile *p, const struct source_wish *wish,
		      struct heft_error *err)
{
	bool allocs = wish->form == SOURCE_ALLOCS || wish->form == SOURCE_ALLOCS_TEXT;
	struct export_options o = {
		.measure = allocs ? MEASURE_ALLOCATED_BYTES : MEASURE_LIVE_BYTES,
	};
	if (wish->form == SOURCE_SYMBOLS)
		return pprof_write_symbols(out, p, wish->addresses) < 0 ? no_memory(err) : 0;
	if (wish->form == SOURCE_HEAP_TEXT || wish->form == SOURCE_ALLOCS_TEXT)
		return pprof_write_text(out, p, allocs) < 0 ? no_memory(err) : 0;
	if (wish->before)
		return write_difference(out, p, wish, o.measure, err);
	return exporter_write(exporter_find("pprof"), out, p, &o, err);
}

int profile_render(const struct profile *p, const struct source_wish *wish, char **bytes,
		   size_t *length, struct heft_error *err)
{
	*bytes = NULL;
	FILE *out = open_memstream(bytes, length);
	if (!out)
		return no_memory(err);
	int rc = write_form(out, p, wish, err);
	if (fclose(out) != 0 && rc == 0)
		rc = no_memory(err);
	if (rc < 0) {
		free(*bytes);
		*bytes = NULL;
	}
	return rc;
}
