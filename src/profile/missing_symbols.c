/* One note that names the modules without files and lines, and what would provide them.
 * It names only modules of the first user frames of large sites: the others matter to
 * nobody. */
#include "profile/missing_symbols.h"

#include "symbol/debug_package.h"
#include "symbol/go_file.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { SITES_LOOKED_AT = 1000, MODULES_NAMED = 3, COUNTS_FROM = 100 /* a hundredth of all */ };

struct words {
	char text[1024];
	size_t used;
	unsigned count;
};

static void add_words(struct words *w, const char *before, const char *word)
{
	int n = snprintf(w->text + w->used, sizeof w->text - w->used, "%s%s%.200s",
			 w->count ? ", " : "", before, word);
	if (n > 0 && (size_t)n < sizeof w->text - w->used) {
		w->used += (size_t)n;
		w->count++;
	} else {
		w->text[w->used] = 0;
	}
}

static bool has_word(const struct words *w, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = w->text; (at = strstr(at, word)); at++)
		if ((at == w->text || at[-1] == ' ') && (!at[length] || at[length] == ','))
			return true;
	return false;
}

/* The modules of the first user frames of sites that make up at least a hundredth of the peak (or,
 * where nothing was live, of the allocated bytes). */
static void find_modules(const struct profile *p, bool *counts)
{
	uint64_t peak = 0, allocated = 0;
	for (uint32_t i = 0; i < p->site_count; i++) {
		peak += p->sites[i].peak_bytes;
		allocated += p->sites[i].allocated_bytes;
	}
	for (uint32_t i = 0; i < p->site_count && i < SITES_LOOKED_AT; i++) {
		const struct profile_site *s = &p->sites[i];
		if (s->node == PROFILE_NONE || (s->peak_bytes < peak / COUNTS_FROM &&
						s->allocated_bytes < allocated / COUNTS_FROM))
			continue;
		uint32_t node = profile_first_user_node(p, s->node);
		const struct profile_frame *f = profile_node_frame(p, node);
		if (f->user && f->module < p->stacks.module_count)
			counts[f->module] = true;
	}
}

static int note_no_debug(struct profile *p, const bool *counts)
{
	struct words modules = {0}, packages = {0};
	unsigned more = 0;
	bool own = false, system = false;
	for (uint32_t i = 0; i < p->stacks.module_count; i++) {
		const struct profile_module *m = &p->stacks.modules[i];
		char package[256];
		if (!counts[i] || !m->no_debug || m->path[0] != '/')
			continue;
		if (modules.count == MODULES_NAMED) {
			more++;
			continue;
		}
		add_words(&modules, "", profile_module_name(p, i));
		if (!debug_package_is_system(m->path))
			own = true;
		else if (debug_package_name(m->path, package, sizeof package) &&
			 !has_word(&packages, package))
			add_words(&packages, "", package);
		system |= debug_package_is_system(m->path);
	}
	if (!modules.count)
		return 0;
	char others[32] = "";
	if (more)
		snprintf(others, sizeof others, " and %u more", more);
	const char *urls = getenv("DEBUGINFOD_URLS");
	bool servers = system && !(urls && *urls);
	/* A package is named only if it is known; a server always knows which one it is. */
	char system_words[1200] = "";
	if (packages.count)
		snprintf(system_words, sizeof system_words, "install %s%s", packages.text,
			 servers ? " (or set DEBUGINFOD_URLS)" : "");
	else if (servers)
		snprintf(system_words, sizeof system_words, "set DEBUGINFOD_URLS");
	return profile_add_note(p, PROFILE_NOTE_INFO, 0,
				"no files and lines for %s%s (no debug information)%s%s%s%s",
				modules.text, others, *system_words || own ? ": " : "",
				system_words, *system_words && own ? "; " : "",
				own ? "build your own with -g" : "");
}

int missing_symbols_note(struct profile *p)
{
	bool *counts = calloc((size_t)p->stacks.module_count + 1, sizeof *counts);
	if (!counts)
		return HEFT_ENOMEM;
	find_modules(p, counts);
	for (uint32_t i = 0; i < p->stacks.module_count; i++) {
		struct profile_module *m = &p->stacks.modules[i];
		m->go = counts[i] && m->no_debug && m->path[0] == '/' && go_file_is(m->path);
	}
	int rc = note_no_debug(p, counts);
	for (uint32_t i = 0; i < p->stacks.module_count && rc == 0; i++)
		if (counts[i] && p->stacks.modules[i].debug_lacking) {
			rc = profile_add_note(p, PROFILE_NOTE_INFO, 0,
					      "the debug information of %s is incomplete: %s",
					      profile_module_name(p, i),
					      p->stacks.modules[i].debug_lacking);
			break;
		}
	free(counts);
	return rc;
}
