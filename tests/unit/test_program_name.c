/* What a program is called, by its file and the name it was started under. */
#include "hosted/program_name.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

TEST(test_names)
{
	static const struct {
		const char *exe, *argv0, *name, *words;
	} cases[] = {
		{"/usr/bin/redis-check-rdb", "redis-server", "redis-server",
		 "redis-server, /usr/bin/redis-check-rdb"},
		{"/usr/bin/redis-check-rdb", "redis-server *:6379", "redis-server",
		 "redis-server, /usr/bin/redis-check-rdb"},
		{"/usr/bin/python3.11", "/usr/bin/python3", "python3",
		 "python3, /usr/bin/python3.11"},
		{"/bin/busybox", "ls", "ls", "ls, /bin/busybox"},
		{"/usr/sbin/nginx", "nginx: worker process", "nginx", "/usr/sbin/nginx"},
		{"/usr/sbin/sshd", "sshd: root@pts/0", "sshd", "/usr/sbin/sshd"},
		/* login shells */
		{"/usr/bin/bash", "-bash", "bash", "/usr/bin/bash"},
		{"/usr/bin/dash", "-sh", "sh", "sh, /usr/bin/dash"},
		/* nothing to go by */
		{"/opt/server", "", "server", "/opt/server"},
		{"/opt/server", NULL, "server", "/opt/server"},
		{"/opt/server", "-", "server", "/opt/server"},
		{"/opt/server", "/", "server", "/opt/server"},
		{"/opt/server", "  ", "server", "/opt/server"},
		{"/opt/server", "\x01\x02", "server", "/opt/server"},
		{"", "./server", "server", "server"},
		{NULL, "./server", "server", "server"},
		{"", "", "?", "?"},
		{NULL, NULL, "?", "?"},
		/* a path with blanks in it */
		{"/opt/My App/run it", "/opt/My App/run it", "run it", "/opt/My App/run it"},
		{"/opt/My App/run it", "./run it", "run it", "/opt/My App/run it"},
		{"/opt/server", "./server", "server", "/opt/server"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char name[PROGRAM_NAME], words[100];
		assert_string_equal(program_name(name, cases[i].exe, cases[i].argv0),
				    cases[i].name);
		assert_string_equal(
			program_words(words, sizeof words, cases[i].exe, cases[i].argv0),
			cases[i].words);
	}
}

TEST(test_long)
{
	char name[PROGRAM_NAME], words[20], text[4 * PROGRAM_NAME];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	assert_int_equal(strlen(program_name(name, "/a", text)), PROGRAM_NAME - 1);
	assert_int_equal(strlen(program_words(words, sizeof words, text, "a")), sizeof words - 1);
}

UNIT_TESTS(NULL, NULL)
