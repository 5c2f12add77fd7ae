/* What an executable or library has to name its functions and to unwind them, and what its runtime needs (checks.h). */
#include "attach/checks.h"

#include "symbol/debug_package.h"
#include "symbol/symbol_facts.h"

#include <stdio.h>
#include <string.h>

static const char words_for_go[] =
	"heft report reads what its own net/http/pprof gives (/debug/pprof/heap).";

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* The way to files and lines for a program without debug information */
static void words_for_debug(const char *shown, char *text, size_t size)
{
	char package[200];
	if (debug_package_name(shown, package, sizeof package))
		snprintf(text, size, "apt install %s, or set DEBUGINFOD_URLS", package);
	else if (debug_package_is_system(shown))
		snprintf(text, size, "Install its debug symbols, or set DEBUGINFOD_URLS.");
	else
		snprintf(text, size, "Build it with -g, and do not strip it.");
}

void checks_of_symbols(struct checks *c, const char *path, const char *shown)
{
	struct symbol_facts f;
	char way[300];
	const char *name = base_name(shown);
	if (!symbol_facts_of(path, &f)) {
		checks_add(c, "symbols", CHECK_WARNING,
			   "Reports need the file, or its debug file by build id.",
			   "%s cannot be read", shown);
		return;
	}
	words_for_debug(shown, way, sizeof way);
	if (f.debug)
		checks_add(c, "symbols", CHECK_OK, NULL, "%s has functions, files and lines", name);
	else if (f.apart[0])
		checks_add(c, "symbols", CHECK_OK, NULL, "%s has its debug file: %s", name,
			   f.apart);
	else if (f.table)
		checks_add(c, "symbols", CHECK_WARNING, way, "%s has functions, no files and lines",
			   name);
	else
		checks_add(c, "symbols", CHECK_WARNING, way,
			   "%s is stripped: only functions that it exports have names", name);
	if (!f.unwind && !f.go) /* Go has tables of its own, which heft reads */
		checks_add(c, "unwinding", CHECK_WARNING,
			   "Build it with -fasynchronous-unwind-tables.",
			   "%s has no unwind tables: call stacks may end there", name);
}

bool checks_of_static(struct checks *c, const char *path)
{
	struct symbol_facts f;
	if (!symbol_facts_of(path, &f) || f.loader || f.malloc)
		return false;
	const bool named = f.table || f.apart[0];
	if (f.go)
		checks_add(c, "way in", CHECK_NO, words_for_go,
			   "%s is a Go program without cgo: its heap is not malloc's",
			   base_name(path));
	else
		checks_add(
			c, "way in", CHECK_NO,
			named ? "heft records programs that have malloc and free."
			      : "Link it without -s, do not strip it, or install its debug file.",
			named ? "%s is linked statically and has no malloc"
			      : "%s is linked statically and stripped: nothing says where its "
				"malloc is",
			base_name(path));
	return true;
}

/* The name begins so, and goes on with a version or ends: python3.11, not pythonista. */
static bool is_named(const char *name, const char *start)
{
	size_t n = strlen(start);
	return !strncmp(name, start, n) && strspn(name + n, "0123456789.-") == strlen(name + n);
}

void checks_of_runtime(struct checks *c, const char *path, const char *name)
{
	static const struct {
		const char *file, *words, *way;
	} runtimes[] = {
		{"node", "Node.js: its JavaScript has no names in call stacks",
		 "node --perf-basic-prof names it."},
		{"nodejs", "Node.js: its JavaScript has no names in call stacks",
		 "node --perf-basic-prof names it."},
		{"python", "Python: call stacks have functions of the interpreter",
		 "python3 -X perf (from 3.12 on) adds those of Python."},
		{"java",
		 "Java: the heap of its objects is not malloc's; heft sees what the JVM and "
		 "native code allocate",
		 "java with a perf agent, or -XX:+DumpPerfMapAtExit, names its compiled code."},
		{"ruby", "Ruby: call stacks have functions of the interpreter", NULL},
	};
	struct symbol_facts f;
	const char *base = base_name(name);
	for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++)
		if (is_named(base, runtimes[i].file)) {
			checks_add(c, "runtime", CHECK_OK, runtimes[i].way, "%s",
				   runtimes[i].words);
			return;
		}
	if (symbol_facts_of(path, &f) && f.go)
		checks_add(c, "runtime", CHECK_WARNING, words_for_go,
			   "Go: its heap is not malloc's; heft sees what cgo allocates");
}
