/*
 * timed: run one command and write down what it took.
 *
 *   timed [-o FILE] [-t SECONDS] [-m BYTES] [-e NAME=VALUE]... -- CMD [ARG...]
 *
 * The benchmark measures every variant through this launcher, for three reasons. It is tiny, so
 * that neither an interpreter's start-up nor its resident size (which a forked child inherits as
 * its first ru_maxrss) leaks into a 20 ms measurement. It becomes the subreaper of what it starts
 * and waits until nothing of it is left, so that a profiler which hands work to background
 * processes is charged for them. And put inside a profiler ("heft run -- timed ... CMD") it
 * measures the program's side alone.
 *
 * Invariants: nothing here allocates from the heap or writes to stdout (it may itself be profiled,
 * and stdout belongs to the command); the child is started by vfork, which copies no page tables
 * and, under a profiler, opens no second stream. Variables given with -e reach the command only,
 * never the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_VARIABLES = 4096 };

struct limits {
	long seconds;
	rlim_t bytes;
};

static char *child_environment[MAX_VARIABLES + 1];
static volatile sig_atomic_t child_group;
static volatile sig_atomic_t timed_out;

static long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (long long)time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void on_alarm(int signal_number)
{
	(void)signal_number;
	timed_out = 1;
	if (child_group > 0)
		kill(-child_group, SIGKILL);
}

static int fail(const char *what)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "timed: %s: %s\n", what, strerror(errno));

	if (length > 0 && write(STDERR_FILENO, line, strlen(line)) < 0)
		return 125;
	return 125;
}

static int set_variable(const char *assignment, int *count)
{
	const char *equals = strchr(assignment, '=');
	size_t name_length;

	if (!equals)
		return -1;
	name_length = (size_t)(equals - assignment) + 1;
	for (int i = 0; i < *count; i++) {
		if (strncmp(child_environment[i], assignment, name_length) == 0) {
			child_environment[i] = (char *)assignment;
			return 0;
		}
	}
	if (*count == MAX_VARIABLES)
		return -1;
	child_environment[(*count)++] = (char *)assignment;
	return 0;
}

static long long microseconds(struct timeval time)
{
	return (long long)time.tv_sec * 1000000LL + time.tv_usec;
}

/* A function of its own: nothing that vfork's second return could find changed lives here. */
static pid_t start_command(char **argv, const struct limits *limits)
{
	pid_t child = vfork();

	if (child == 0) {
		if (limits->seconds > 0)
			setpgid(0, 0);
		if (limits->bytes > 0) {
			struct rlimit limit = {limits->bytes, limits->bytes};

			setrlimit(RLIMIT_AS, &limit);
		}
		execvpe(argv[0], argv, child_environment);
		_exit(errno == ENOENT ? 127 : 126);
	}
	return child;
}

/* Waits for the command and then for everything it left behind, until nothing is left. */
static int wait_for_all(pid_t child, int *status)
{
	for (;;) {
		int one_status = 0;
		pid_t pid = waitpid(-1, &one_status, 0);

		if (pid == child)
			*status = one_status;
		else if (pid < 0 && errno == ECHILD)
			return 0;
		else if (pid < 0 && errno != EINTR)
			return -1;
	}
}

static int write_result(const char *path, long long wall_ns, int status)
{
	char line[256];
	struct rusage usage;
	int descriptor = STDERR_FILENO;
	int length;
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

	if (path)
		descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (descriptor < 0)
		return -1;
	getrusage(RUSAGE_CHILDREN, &usage);
	length = snprintf(line, sizeof(line),
			  "wall_ns=%lld user_us=%lld sys_us=%lld maxrss_kb=%ld minflt=%ld "
			  "status=%d timed_out=%d\n",
			  wall_ns, microseconds(usage.ru_utime), microseconds(usage.ru_stime),
			  usage.ru_maxrss, usage.ru_minflt, code, (int)timed_out);
	return length > 0 && write(descriptor, line, (size_t)length) == length ? 0 : -1;
}

int main(int argc, char **argv)
{
	extern char **environ;
	const char *result_path = NULL;
	struct limits limits = {0};
	int variables = 0;
	int status = 0;
	int option;
	pid_t child;
	long long start;

	for (; environ[variables] && variables < MAX_VARIABLES; variables++)
		child_environment[variables] = environ[variables];
	while ((option = getopt(argc, argv, "+o:t:m:e:")) != -1) {
		switch (option) {
		case 'o': result_path = optarg; break;
		case 't': limits.seconds = strtol(optarg, NULL, 10); break;
		case 'm': limits.bytes = (rlim_t)strtoull(optarg, NULL, 10); break;
		case 'e':
			if (set_variable(optarg, &variables) < 0)
				return 2;
			break;
		default: return 2;
		}
	}
	if (optind >= argc)
		return 2;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (limits.seconds > 0) {
		struct sigaction action = {.sa_handler = on_alarm};
		struct itimerval timer = {.it_value = {.tv_sec = limits.seconds}};

		/* Again every second, should the first kill meet a fork half-way. */
		timer.it_interval.tv_sec = 1;
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &timer, NULL);
	}
	start = now_ns();
	child = start_command(argv + optind, &limits);
	if (child < 0)
		return fail("vfork");
	if (limits.seconds > 0)
		child_group = child;
	if (wait_for_all(child, &status) < 0)
		return fail("waitpid");
	if (write_result(result_path, now_ns() - start, status) < 0)
		return fail(result_path ? result_path : "stderr");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
