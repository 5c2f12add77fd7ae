/* The words for the end of a process: the table of kinds, memory limits, and that nothing overflows. */
#include "hosted/end_words.h"
#include "unit_test.h"

#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

static void assert_words(struct how_ended end, const char *expected)
{
	assert_string_equal(words_of_end(&end).text, expected);
}

TEST(test_every_kind)
{
	assert_words((struct how_ended){.kind = END_EXIT, .exit_status = 3}, "exit status 3");
	assert_words((struct how_ended){.kind = END_SIGNAL, .signal = SIGTERM},
		     "killed by signal 15 (SIGTERM)");
	assert_words((struct how_ended){.kind = END_SIGNAL, .signal = 99}, "killed by signal 99");
	assert_words((struct how_ended){.kind = END_EXEC}, "became another program");
	assert_words((struct how_ended){.kind = END_DETACHED}, "went on after the recording ended");
	assert_words((struct how_ended){.kind = END_UNKNOWN}, "ended, status unknown");
	assert_words((struct how_ended){.kind = END_RUNNING},
		     "still running when the recording ended");
	assert_words((struct how_ended){.kind = END_CUT}, "its end was not recorded");
}

/* The signal that the kernel sends is not worth saying beside the reason. */
TEST(test_out_of_memory)
{
	struct how_ended end = {.kind = END_OOM, .signal = SIGKILL};
	assert_words(end, "killed by the kernel: out of memory");
	end.memory_limit_bytes = 64u << 20;
	assert_words(end, "killed by the kernel: out of memory (of 64.0 MiB)");
	end.limit_is_cgroup = true;
	assert_words(end, "killed by the kernel: out of memory (limit of its cgroup: 64.0 MiB)");
	end.memory_limit_bytes = UINT64_MAX;
	assert_words(end, "killed by the kernel: out of memory (limit of its cgroup: 16.0 EiB)");
}

TEST(test_status_of_wait)
{
	assert_string_equal(words_of_status(4 << 8).text, "exit status 4");
	assert_string_equal(words_of_status(SIGSEGV).text, "killed by signal 11 (SIGSEGV)");
	assert_string_equal(words_of_status(SIGSEGV | 0x80).text, /* with a core file */
			    "killed by signal 11 (SIGSEGV)");
}

UNIT_TESTS(NULL, NULL)
