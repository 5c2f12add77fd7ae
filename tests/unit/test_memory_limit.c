/* The limit of a program's memory, from made-up /proc and cgroup trees. */
#include "session/oom_watch.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64], proc[80], groups[80];

static void put(const char *path, const char *text)
{
	char full[512];
	snprintf(full, sizeof full, "%s%s", root, path);
	for (char *s = full + 1; (s = strchr(s, '/')); s++) {
		*s = 0;
		mkdir(full, 0700);
		*s = '/';
	}
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int begin(void **state)
{
	(void)state;
	strcpy(root, "/tmp/heft-limit-XXXXXX");
	assert_non_null(mkdtemp(root));
	snprintf(proc, sizeof proc, "%s/proc", root);
	snprintf(groups, sizeof groups, "%s/cg", root);
	put("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       4194304 kB\nSwapTotal: 9 kB\n");
	return 0;
}

static int end(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -r '%s'", root);
	return system(command);
}

static uint64_t limit_now(bool *is_cgroup)
{
	struct memory_groups g;
	memory_groups_of(proc, "self", &g);
	return memory_limit(proc, groups, &g, is_cgroup);
}

TEST_WITH(test_oom_kills, begin, end)
{
	struct memory_groups g;
	struct oom_watch w;
	char gone[128];
	put("/proc/12/cgroup", "4:memory:/x\n0::/a/b\n");
	put("/cg/a/b/memory.events", "low 0\noom 1\noom_kill 1\n");
	put("/cg/a/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 7\n");
	memory_groups_of(proc, "12", &g);
	assert_string_equal(g.v1, "/x");
	oom_watch_begin(&w, groups, &g);
	assert_int_equal(w.count, 2);
	assert_false(oom_watch_rose(&w));
	/* Another group's victim. */
	put("/cg/a/memory.events", "oom_kill 3\n");
	assert_false(oom_watch_rose(&w));
	put("/cg/a/b/memory.events", "oom_kill 2\n");
	assert_true(oom_watch_rose(&w));
	/* Removed at once: what is above tells. */
	snprintf(gone, sizeof gone, "%s/a/b/memory.events", groups);
	assert_int_equal(remove(gone), 0);
	assert_true(oom_watch_rose(&w));
	/* Version 1. */
	put("/cg/memory/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
	oom_watch_begin(&w, groups, &g);
	assert_false(oom_watch_rose(&w));
	put("/cg/memory/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
	assert_true(oom_watch_rose(&w));
}

TEST_WITH(test_limits, begin, end)
{
	bool is_cgroup = true;
	/* No cgroup at all: the machine's 4 GiB. */
	assert_int_equal(limit_now(&is_cgroup), 4ull << 30);
	assert_false(is_cgroup);
	/* Version 2: its own has none, the one above it has, and the smallest counts. */
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/cg/a/b/memory.max", "max\n");
	put("/cg/a/memory.max", "536870912\n");
	put("/cg/memory.max", "1073741824\n");
	assert_int_equal(limit_now(&is_cgroup), 512 << 20);
	assert_true(is_cgroup);
	/* More than there is does not limit. */
	put("/cg/a/memory.max", "99999999999999\n");
	put("/cg/memory.max", "max\n");
	assert_int_equal(limit_now(&is_cgroup), 4ull << 30);
	assert_false(is_cgroup);
	/* Version 1, among other controllers; its "no limit" is a huge number. */
	put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n1:name=systemd:/x\n");
	put("/cg/memory/x/memory.limit_in_bytes", "268435456\n");
	put("/cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(limit_now(&is_cgroup), 256 << 20);
	assert_true(is_cgroup);
	/* Nonsense is no limit. */
	put("/proc/self/cgroup", "\n:::\nmemory\n0::\n");
	put("/proc/meminfo", "MemTotal: many kB\n");
	assert_int_equal(limit_now(&is_cgroup), 0);
}

UNIT_TESTS(NULL, NULL)
