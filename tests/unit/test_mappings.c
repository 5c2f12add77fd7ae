/* Whether a process has a file mapped: what /proc/PID/maps says, in either of its forms, whatever the paths in it are. */
#include "session/mappings.h"

#include "unit_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static enum mappings_answer look_in(const char *text, const struct stat *file)
{
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	assert_non_null(f);
	enum mappings_answer answer = mappings_look_in_text(f, file);
	fclose(f);
	return answer;
}

TEST(test_lines)
{
	const struct stat file = {.st_dev = makedev(0, 0x1b), .st_ino = 77};
	const char text[] = "7f0000000000-7f0000001000 rw-s 00000000 00:1b 77 /dev/shm/x\n"
			    "7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n";
	assert_int_equal(look_in(text, &file), MAPPINGS_HAVE);
	/* private, another inode, another device */
	assert_int_equal(look_in("1000-2000 rw-p 00000000 00:1b 77 /x\n", &file), MAPPINGS_LACK);
	assert_int_equal(look_in("1000-2000 rw-s 00000000 00:1b 78 /x\n", &file), MAPPINGS_LACK);
	assert_int_equal(look_in("1000-2000 rw-s 00000000 00:1c 77 /x\n", &file), MAPPINGS_LACK);
	assert_int_equal(look_in("\n", &file), MAPPINGS_LACK);
}

/* The kernel writes a newline of a path as four characters, so that a path may fill 16 KiB of a line. Wherever a reader
 * may cut it, the rest is not a line of its own. */
TEST(test_a_path_that_looks_like_a_line)
{
	const struct stat file = {.st_dev = makedev(0, 0x1b), .st_ino = 77};
	static char text[32768];
	for (int at = 4000; at < 4300; at++) {
		int n = snprintf(text, sizeof text, "1000-2000 rw-s 00000000 00:1c 5 /");
		memset(text + n, 'a', (size_t)(at - n));
		snprintf(text + at, sizeof text - (size_t)at,
			 "3000-4000 rw-s 00000000 00:1b 77 /x\n5000-6000 r--p 00000000 00:00 0\n");
		assert_int_equal(look_in(text, &file), MAPPINGS_LACK);
	}
	strcat(text, "7000-8000 rw-s 00000000 00:1b 77 /y\n");
	assert_int_equal(look_in(text, &file), MAPPINGS_HAVE); /* what follows is read */
}

TEST(test_a_process)
{
	char path[] = "/tmp/heft-mappings-XXXXXX";
	int fd = mkstemp(path), ready[2];
	struct stat st;
	assert_true(fd >= 0 && !pipe(ready) && !ftruncate(fd, 8192) && !fstat(fd, &st));
	pid_t child = fork();
	if (child == 0) {
		void *at = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
		if (at == MAP_FAILED || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	char byte;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	FILE *f = mappings_open(child);
	char line[4200];
	struct mapping m = {0};
	bool found = false;
	while (!found && mappings_line(f, line, sizeof line))
		found = mappings_parse(line, &m) && m.inode == st.st_ino;
	fclose(f);
	assert_true(found);
	/* The device as /proc says it: on some file systems stat says another one. */
	const struct stat file = {.st_dev = makedev(m.major, m.minor), .st_ino = st.st_ino};
	const struct stat other = {.st_dev = file.st_dev, .st_ino = st.st_ino + 1};
	assert_int_equal(mappings_look(child, &file), MAPPINGS_HAVE);
	assert_int_equal(mappings_look(child, &other), MAPPINGS_LACK);
	assert_int_equal(mappings_look(getpid(), &file), MAPPINGS_LACK);
	kill(child, SIGKILL);
	siginfo_t info;
	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	assert_int_equal(mappings_look(child, &file), MAPPINGS_NONE); /* a zombie */
	waitpid(child, NULL, 0);
	assert_int_equal(mappings_look(child, &file), MAPPINGS_NONE);
	unlink(path);
	close(fd);
	close(ready[0]);
	close(ready[1]);
}

UNIT_TESTS(NULL, NULL)
