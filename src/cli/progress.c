/* Shows progress in one line on stderr, and removes it at the end. It appears only if loading takes longer
 * than a second, so most reports never show it. */
#include "cli/progress.h"

#include "hosted/monotonic.h"
#include "hosted/name_words.h"
#include "hosted/program_name.h"

#include <stdio.h>
#include <unistd.h>

enum { QUIET_MS = 1000, STEP_MS = 100 };

static uint64_t now_ms(void)
{
	return monotonic_ns() / 1000000;
}

static void show(void *ctx, const char *module, size_t done, size_t total)
{
	struct cli_progress *p = ctx;
	uint64_t now = now_ms();
	if (now - p->started_ms < QUIET_MS || (p->shown && now - p->shown_ms < STEP_MS))
		return;
	p->shown = true;
	p->shown_ms = now;
	fputs("\r\033[Kheft: reading symbols: ", stderr);
	words_print_fit(stderr, path_file(module), 60);
	fprintf(stderr, ", %zu %%", total ? done * 100 / total : 0);
	fflush(stderr);
}

void cli_progress_attach(struct cli_progress *progress, struct profile_selection *selection)
{
	*progress = (struct cli_progress){.started_ms = now_ms()};
	if (!isatty(STDERR_FILENO))
		return;
	selection->progress = show;
	selection->progress_ctx = progress;
}

void cli_progress_end(struct cli_progress *progress)
{
	if (!progress->shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress->shown = false;
}
