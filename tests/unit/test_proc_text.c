/* Small files of /proc as text: names that look like fields, files that are longer than the room, lines that are not
 * there. */
#include "hosted/proc_text.h"
#include "unit_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

TEST(a_name_with_brackets_is_no_field)
{
	char text[1024];
	prctl(PR_SET_NAME, ") Z 1 (");
	assert_true(proc_text(text, sizeof text, "/proc/%d/stat", getpid()) > 50);
	assert_non_null(strstr(text, "() Z 1 ()"));
	assert_int_equal(*proc_stat_field(text, STAT_STATE), 'R');
	assert_int_equal(atoi(proc_stat_field(text, STAT_PARENT)), getppid());
	assert_int_equal(atoi(proc_stat_field(text, STAT_EXIT_CODE)), 0);
	assert_null(proc_stat_field(text, STAT_EXIT_CODE + 1));
}

TEST(what_is_cut_or_empty_has_no_field)
{
	assert_null(proc_stat_field("", STAT_STATE));
	assert_null(proc_stat_field("12 (a", STAT_STATE));
	assert_null(proc_stat_field("12 (a)", STAT_STATE));
	assert_null(proc_stat_field("12 (a) ", STAT_STATE));
	assert_null(proc_stat_field("12 (a) R", STAT_PARENT));
	assert_string_equal(proc_stat_field("12 (a) R 7", STAT_PARENT), "7");
}

TEST(a_name_with_a_line_is_no_line)
{
	char text[4096];
	prctl(PR_SET_NAME, "a\nUid:\t0");
	proc_text(text, sizeof text, "/proc/self/status");
	assert_int_equal(atoi(proc_status_line(text, "Uid")), getuid());
	assert_int_equal(proc_status_last(text, "NSpid"), getpid());
	assert_int_equal(proc_status_last(text, "Threads"), 1);
	assert_null(proc_status_line(text, "hreads"));
	assert_int_equal(proc_status_last(text, "NoSuch"), -1);
}

TEST(the_last_number_of_a_line)
{
	static const char status[] = "Name:\tx 5\nNSpid:\t70\t8\t1\nGroups:\t \nLast:\t12";
	assert_int_equal(proc_status_last(status, "NSpid"), 1);
	assert_int_equal(proc_status_last(status, "Groups"), -1);
	assert_int_equal(proc_status_last(status, "Last"), 12);
	assert_int_equal(proc_status_last("", "Last"), -1);
}

TEST(what_is_not_there_is_empty)
{
	char text[8] = "full";
	prctl(PR_SET_NAME, "test");
	assert_int_equal(proc_text(text, sizeof text, "/proc/%d/status", 0), 0);
	assert_string_equal(text, "");
	strcpy(text, "full");
	assert_int_equal(proc_text(text, sizeof text, "/proc/%0400d/status", 1), 0);
	assert_string_equal(text, "");
	/* as much as fits */
	assert_int_equal(proc_text(text, sizeof text, "/proc/self/status"), 7);
	assert_string_equal(text, "Name:\tt");
	int folder = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(proc_text_at(folder, "statm", text, sizeof text), 7);
	assert_int_equal(proc_text_at(folder, "none", text, sizeof text), 0);
	assert_string_equal(text, "");
	close(folder);
}

UNIT_TESTS(NULL, NULL)
