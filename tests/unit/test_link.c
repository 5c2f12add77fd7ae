/* Messages between the processes of heft agent: in order, with their descriptors, also if the other side takes its time;
 * and nonsense ends the link. */
#include "agent/link.h"

#include "trace/trace.h"
#include "unit_test.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 2000 };

static struct link ours;
static int theirs;

static int begin(void **state)
{
	int pair[2];
	(void)state;
	if (link_pair(pair))
		return -1;
	link_init(&ours, pair[0]);
	theirs = pair[1];
	return 0;
}

static int end(void **state)
{
	(void)state;
	link_fini(&ours);
	close(theirs);
	return 0;
}

static int open_files(void)
{
	int n = 0;
	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST_WITH(test_more_than_the_socket_holds, begin, end)
{
	int fds[LINK_DESCRIPTORS], before = open_files();
	struct link_message m;
	for (uint64_t i = 0; i < MANY; i++) {
		int null = open("/dev/null", O_RDONLY);
		const struct link_message out = {.kind = LINK_TAKE, .key = i};
		link_send(&ours, &out, &null, i % 3 == 0);
		if (i % 3)
			close(null);
	}
	assert_true(ours.stuck_ns != 0);
	for (uint64_t i = 0; i < MANY; i++) {
		link_flush(&ours);
		assert_int_equal(link_receive(theirs, &m, fds), 1);
		assert_int_equal(m.key, i);
		assert_int_equal(fds[0] >= 0, i % 3 == 0);
		assert_int_equal(fds[1], -1);
		if (fds[0] >= 0)
			close(fds[0]);
	}
	assert_int_equal(link_receive(theirs, &m, fds), 0);
	assert_int_equal(ours.stuck_ns, 0);
	assert_int_equal(open_files(), before);
}

TEST_WITH(test_nothing_is_left_open, begin, end)
{
	int before = open_files();
	for (int i = 0; i < MANY; i++) {
		const struct link_message m = {.kind = LINK_TAKE};
		int null = open("/dev/null", O_RDONLY);
		link_send(&ours, &m, &null, 1);
	}
	link_fini(&ours);
	close(theirs); /* what is on its way goes, too */
	theirs = -1;
	assert_int_equal(open_files(), before - 2);
}

TEST_WITH(test_nonsense, begin, end)
{
	struct link_message m = {.kind = LINK_PING}, got;
	int fds[LINK_DESCRIPTORS];
	const struct {
		size_t bytes;
		struct link_message m;
	} cases[] = {{offsetof(struct link_message, text), m},
		     {1, m},
		     {sizeof m, {.kind = 0}},
		     {sizeof m, {.kind = LINK_FAILED + 1}},
		     {sizeof m, {.kind = LINK_END, .end = TRACE_END_LAST + 1}}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_true(send(theirs, &cases[i].m, cases[i].bytes, 0) > 0);
		assert_int_equal(link_receive(ours.fd, &got, fds), -1);
	}
	unsigned char *flag = (unsigned char *)&m.running;
	*flag = 2;
	assert_true(send(theirs, &m, sizeof m, 0) > 0);
	assert_int_equal(link_receive(ours.fd, &got, fds), -1);
	*flag = 0;
	memset(m.text, 'x', sizeof m.text);
	assert_true(send(theirs, &m, sizeof m, 0) > 0);
	assert_int_equal(link_receive(ours.fd, &got, fds), 1);
	assert_int_equal(strlen(got.text), sizeof got.text - 1);
	close(theirs);
	theirs = -1;
	assert_int_equal(link_receive(ours.fd, &got, fds), -1);
}

UNIT_TESTS(NULL, NULL)
