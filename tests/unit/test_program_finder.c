/* Finding processes by their executable: which rule matches what, and that a process is found once, also if it executes a
 * program that matches later. */
#include "agent/program_finder.h"
#include "unit_test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND 1000000000ull

static void matches(void **state)
{
	static const struct {
		const char *glob, *path;
		bool matches;
	} cases[] = {
		{"redis-server", "/usr/bin/redis-server", true},
		{"redis-server", "/usr/bin/redis-server-old", false},
		{"redis*", "/usr/bin/redis-server-old", true},
		{"usr", "/usr/bin/redis", false},
		{"*", "/usr/bin/redis", true},
		{"python3.[0-9]*", "/usr/bin/python3.11", true},
		{"/usr/bin/*", "/usr/bin/redis", true},
		{"/usr/*", "/usr/bin/redis", false}, /* a star ends at a slash */
		{"/opt/*/bin/server", "/opt/a/bin/server", true},
		{"/opt/*/bin/server", "/opt/a/b/bin/server", false},
		{"*/redis", "/usr/bin/redis", false},
		{"Redis", "/usr/bin/redis", false},
		{"[", "/usr/bin/[", true}, /* no pattern: it is that name */
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *globs[] = {"nothing", cases[i].glob};
		uint32_t rule = program_rule(globs, 2, cases[i].path);
		if (rule != (cases[i].matches ? 1u : 2u))
			fail_msg("%s and %s: rule %u", cases[i].glob, cases[i].path, rule);
	}
}

static const struct program *find(const struct program_finder *f, pid_t pid)
{
	for (size_t i = 0; i < f->list.count; i++)
		if (f->list.items[i].pid == pid)
			return &f->list.items[i];
	return NULL;
}

/* Looks as often as if so many seconds had passed, until a rule matches the process. */
static bool is_found(struct program_finder *f, pid_t pid, uint64_t *now)
{
	for (unsigned i = 0; i < 6000; i++) {
		*now += 100 * SECOND; /* whatever the last look has cost */
		program_finder_look(f, *now);
		const struct program *p = find(f, pid);
		if (p && p->state == PROGRAM_WANTED)
			return true;
		usleep(10000);
	}
	return false;
}

static void finds(void **state)
{
	const char *globs[] = {"sleep", "/bin/no-such-program"};
	struct program_finder f;
	uint64_t now = 0;
	int go[2];
	char byte = 0;
	(void)state;
	assert_int_equal(pipe(go), 0);
	pid_t child = fork();
	if (child == 0) { /* at first it runs this very program, which never matches */
		if (read(go[0], &byte, 1) == 1)
			execl("/bin/sleep", "sleep", "60", NULL);
		_exit(1);
	}
	assert_int_equal(program_finder_init(&f, globs, 2), 0);
	assert_true(program_finder_look(&f, now));
	assert_false(program_finder_look(&f, now)); /* not so soon */
	assert_non_null(find(&f, child));
	assert_int_equal(find(&f, child)->state, PROGRAM_OTHER);
	assert_int_equal(find(&f, getpid())->state, PROGRAM_OTHER);
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_true(is_found(&f, child, &now));
	struct program *p = (struct program *)(uintptr_t)find(&f, child);
	assert_int_equal(p->rule, 0);
	assert_true(p->began > 0);
	assert_ptr_equal(program_finder_get(&f, child, p->began), p);
	assert_null(program_finder_get(&f, child, p->began + 1));
	/* What became of it is kept as long as it is the same process with the same executable, also if the kernel has
	 * forgotten its folder meanwhile. */
	p->state = PROGRAM_LEFT;
	p->inode++;
	for (unsigned i = 0; i < 10; i++)
		program_finder_look(&f, now += 100 * SECOND);
	assert_int_equal(find(&f, child)->state, PROGRAM_LEFT);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	program_finder_look(&f, now += 100 * SECOND);
	assert_null(find(&f, child));
	program_finder_fini(&f);
	close(go[0]);
	close(go[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches),
		cmocka_unit_test(finds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
