/* What filters (seccomp) make of heft's calls: verdicts worked out by hand, programs that no kernel would take, and one
 * filter that the kernel itself is asked about. */
#include "base/filter.h"
#include "unit_test.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define COUNT(array) (uint32_t)(sizeof(array) / sizeof *(array))

TEST(a_filter_that_allows_all_forbids_nothing)
{
	const struct sock_filter f[] = {RETURN(SECCOMP_RET_ALLOW)};
	assert_int_equal(filter_forbids_all(f, COUNT(f)), 0);
	const struct sock_filter log[] = {RETURN(SECCOMP_RET_LOG)};
	assert_int_equal(filter_forbids_all(log, COUNT(log)), 0);
}

TEST(an_error_is_not_deadly_and_all_else_is)
{
	static const uint32_t deadly[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
					  SECCOMP_RET_TRAP, SECCOMP_RET_TRACE,
					  SECCOMP_RET_USER_NOTIF};
	const struct sock_filter f[] = {RETURN(SECCOMP_RET_ERRNO | 38)};
	assert_int_equal(filter_forbids_all(f, COUNT(f)), SYS_ALL);
	for (size_t i = 0; i < COUNT(deadly); i++) {
		const struct sock_filter kills[] = {RETURN(deadly[i])};
		assert_int_equal(filter_forbids_all(kills, COUNT(kills)), SYS_ALL | SYS_DEADLY);
	}
}

/* Only madvise with the advice 23, which heft asks for and few others. */
TEST(arguments_count)
{
	const struct sock_filter f[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		LOAD(args[2]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23, 0, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		RETURN(SECCOMP_RET_ALLOW),
	};
	assert_int_equal(filter_forbids_all(f, COUNT(f)), 1ull << SYS_DO_MADVISE | SYS_DEADLY);
}

TEST(other_architectures_are_killed_and_ours_is_not)
{
	const struct sock_filter f[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		RETURN(SECCOMP_RET_ALLOW),
	};
	assert_int_equal(filter_forbids_all(f, COUNT(f)), 0);
}

/* 7 * 6 - 2 = 40, / 4 = 10, | 5 = 15, & 12 = 12, ^ 4 = 8, << 3 = 64, >> 1 = 32; -32 negated is 32 again; kept in
 * memory, moved over X. */
TEST(arithmetic)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_IMM, 7),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 6),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 2),
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 4),
		BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 5),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 12),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 4),
		BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 3),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1),
		BPF_STMT(BPF_ALU | BPF_NEG, 0),
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LD | BPF_IMM, 0),
		BPF_STMT(BPF_LDX | BPF_MEM, 3),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	const struct seccomp_data d = {0};
	assert_int_equal(filter_verdict(f, COUNT(f), &d), 32);
}

/* The kernel would not install these; here they kill, and end. */
TEST(what_makes_no_sense_kills)
{
	const struct seccomp_data d = {0};
	const struct sock_filter outside[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof d),
					      RETURN(SECCOMP_RET_ALLOW)};
	const struct sock_filter odd[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 1),
					  RETURN(SECCOMP_RET_ALLOW)};
	const struct sock_filter memory[] = {BPF_STMT(BPF_ST, 16), RETURN(SECCOMP_RET_ALLOW)};
	const struct sock_filter by_zero[] = {BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0),
					      RETURN(SECCOMP_RET_ALLOW)};
	const struct sock_filter away[] = {BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff),
					   RETURN(SECCOMP_RET_ALLOW)};
	const struct sock_filter no_end[] = {BPF_STMT(BPF_LD | BPF_IMM, 0)};
	assert_int_equal(filter_verdict(outside, 2, &d), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filter_verdict(odd, 2, &d), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filter_verdict(memory, 2, &d), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filter_verdict(by_zero, 2, &d), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filter_verdict(away, 2, &d), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filter_verdict(no_end, 1, &d), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filter_verdict(no_end, 0, &d), SECCOMP_RET_KILL_PROCESS);
}

/* A child installs a filter and makes a call: it ends as the verdict says. */
static bool kernel_kills(struct sock_filter *f, uint32_t count, long number, long argument)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		struct sock_fprog program = {(unsigned short)count, f};
		signal(SIGSYS, SIG_DFL);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			_exit(9);
		syscall(number, argument, 0, 0);
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 9);
	return WIFSIGNALED(status);
}

TEST(as_the_kernel_does)
{
	struct sock_filter f[] = {
		LOAD(nr),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 3),
		BPF_STMT(BPF_MISC | BPF_TXA, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		RETURN(SECCOMP_RET_ALLOW),
	};
	/* membarrier(4) is what heft calls */
	assert_int_equal(filter_forbids_all(f, COUNT(f)), 1ull << SYS_DO_MEMBARRIER | SYS_DEADLY);
	assert_true(kernel_kills(f, COUNT(f), SYS_membarrier, 4));
	assert_false(kernel_kills(f, COUNT(f), SYS_membarrier, 3));
	assert_false(kernel_kills(f, COUNT(f), SYS_getpid, 4));
}

UNIT_TESTS(NULL, NULL)
