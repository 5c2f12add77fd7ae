/* Waits in one system call, which a test stops many times, and says what the call returned.
 *
 *     stop_waits CALL [handled|restarted]
 *
 * A helper process of its own, which is not stopped, ends the wait when it reads "r" from stdin, and sends
 * SIGUSR1 when it reads "s". SIGUSR1 is handled if the second argument is there, with SA_RESTART if it is
 * "restarted". The only line on stdout after "waits" is "RESULT ERRNO HANDLED". */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

static int ends[2]; /* a pipe */
static int pair[2]; /* connected sockets */
static int fd = -1;
static int queue;     /* of System V, and a semaphore */
static int32_t *word; /* for futexes */
static char folder[] = "/tmp/heft-stop-XXXXXX", path[64];
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static volatile sig_atomic_t handled;
static const struct timespec long_time = {.tv_sec = 3600};
static aio_context_t aio;

static void nothing(void)
{
}

static void write_pipe(void)
{
	must(write(ends[1], "x", 1) == 1, "write");
}

static void signal_parent(void)
{
	kill(getppid(), SIGUSR2);
}

/* Waits for one of several files */
static int epoll_of_pipe(void)
{
	int set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	return set;
}
static long wait_epoll(void)
{
	struct epoll_event event;
	return epoll_wait(epoll_of_pipe(), &event, 1, -1);
}
static long wait_epoll_timed(void)
{
	struct epoll_event event;
	return epoll_wait(epoll_of_pipe(), &event, 1, 3600000);
}
static long wait_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t set;
	sigemptyset(&set);
	return epoll_pwait(epoll_of_pipe(), &event, 1, -1, &set);
}
static long wait_poll(void)
{
	return poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 3600000);
}
static long wait_ppoll(void)
{
	sigset_t set;
	sigemptyset(&set);
	return ppoll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, &long_time, &set);
}
static long wait_select(void)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return select(ends[0] + 1, &set, NULL, NULL, &(struct timeval){.tv_sec = 3600});
}
/* The kernel cannot write the rest of the time back, and so gives up restarting. */
static long wait_select_constant(void)
{
	struct timeval *t = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	t->tv_sec = 3600;
	mprotect(t, 4096, PROT_READ);
	return syscall(SYS_select, ends[0] + 1, &set, NULL, NULL, t);
}
static long wait_pselect(void)
{
	fd_set set;
	sigset_t mask;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	sigemptyset(&mask);
	return pselect(ends[0] + 1, &set, NULL, NULL, &long_time, &mask);
}

/* Waits for signals */
static void block_usr2(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
}
static long wait_sigtimedwait(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &long_time);
}
static long wait_sigwaitinfo(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigwaitinfo(&set, NULL);
}
static void count(int number)
{
	(void)number;
	handled++;
}
static void handle_usr2(void)
{
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = count}, NULL);
}
static long wait_pause(void)
{
	return pause();
}
static void handle_and_block_usr2(void)
{
	handle_usr2();
	block_usr2();
}
static long wait_sigsuspend(void)
{
	sigset_t set;
	sigemptyset(&set);
	return sigsuspend(&set);
}
static void open_signalfd(void)
{
	sigset_t set;
	block_usr2();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	fd = signalfd(-1, &set, 0);
}
static long wait_signalfd(void)
{
	struct signalfd_siginfo info;
	return read(fd, &info, sizeof info);
}

/* Waits for messages, semaphores, locks */
static void open_semaphore(void)
{
	queue = semget(IPC_PRIVATE, 1, 0600);
	must(queue >= 0, "semget");
}
static long wait_semop(void)
{
	return semop(queue, &(struct sembuf){.sem_op = -1}, 1);
}
static long wait_semtimedop(void)
{
	return semtimedop(queue, &(struct sembuf){.sem_op = -1}, 1, &long_time);
}
static void raise_semaphore(void)
{
	semop(queue, &(struct sembuf){.sem_op = 1}, 1);
}
static void close_semaphore(void)
{
	semctl(queue, 0, IPC_RMID);
}
struct message {
	long type;
	char text[8];
};
static void open_queue(void)
{
	queue = msgget(IPC_PRIVATE, 0600);
	must(queue >= 0, "msgget");
}
static long wait_msgrcv(void)
{
	struct message m;
	return msgrcv(queue, &m, sizeof m.text, 0, 0);
}
static void send_message(void)
{
	msgsnd(queue, &(struct message){.type = 1}, 8, 0);
}
static void close_queue(void)
{
	msgctl(queue, IPC_RMID, NULL);
}
static void open_full_queue(void)
{
	open_queue();
	while (!msgsnd(queue, &(struct message){.type = 1}, 8, IPC_NOWAIT))
		;
}
static long wait_msgsnd(void)
{
	return msgsnd(queue, &(struct message){.type = 1}, 8, 0);
}
static void take_message(void)
{
	struct message m;
	msgrcv(queue, &m, sizeof m.text, 0, 0);
}
static mqd_t posix_queue;
static void open_posix_queue(void)
{
	struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
	snprintf(path, sizeof path, "/heft-stop-%d", getpid());
	posix_queue = mq_open(path, O_CREAT | O_RDWR, 0600, &attributes);
	must(posix_queue != (mqd_t)-1, "mq_open");
	mq_unlink(path);
}
static long wait_mq(void)
{
	char text[8];
	return mq_timedreceive(posix_queue, text, sizeof text, NULL,
			       &(struct timespec){.tv_sec = time(NULL) + 3600});
}
static void send_mq(void)
{
	mq_send(posix_queue, "12345", 5, 0);
}

/* A lock that the helper holds: it opens the file a second time. */
static void make_file(void)
{
	must(mkdtemp(folder) != NULL, "mkdtemp");
	snprintf(path, sizeof path, "%s/file", folder);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
}
static int helper_fd;
static void hold_flock(void)
{
	helper_fd = open(path, O_RDWR);
	flock(helper_fd, LOCK_EX);
}
static long wait_flock(void)
{
	return flock(fd, LOCK_EX);
}
static void hold_record(void)
{
	helper_fd = open(path, O_RDWR);
	fcntl(helper_fd, F_SETLKW, &(struct flock){.l_type = F_WRLCK});
}
static long wait_record(void)
{
	return fcntl(fd, F_SETLKW, &(struct flock){.l_type = F_WRLCK});
}
static void close_lock(void)
{
	close(helper_fd);
}
static void remove_file(void)
{
	unlink(path);
	rmdir(folder);
}

/* Waits for time; none may end early. */
static long seconds = 4;
static struct timespec begun;
static void begin_time(void)
{
	const char *given = getenv("STOP_SECONDS");
	seconds = given ? atol(given) : seconds;
	clock_gettime(CLOCK_MONOTONIC, &begun);
}
static void end_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	long ns = (now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec;
	must(handled || ns >= seconds * 1000000000, "the wait ended early");
}
static long wait_nanosleep(void)
{
	return nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
}
static long wait_clock(void)
{
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = seconds}, NULL);
	return errno ? -1 : 0;
}
static long wait_clock_absolute(void)
{
	struct timespec until = begun;
	until.tv_sec += seconds;
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return errno ? -1 : 0;
}
static void open_timer(void)
{
	begin_time();
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	timerfd_settime(fd, 0, &(struct itimerspec){.it_value.tv_sec = seconds}, NULL);
}
static long wait_timer(void)
{
	uint64_t ticks;
	return read(fd, &ticks, sizeof ticks);
}
static long wait_expiring_poll(void)
{
	return poll(NULL, 0, (int)seconds * 1000);
}

/* Waits for a word in memory */
static void map_word(void)
{
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
static long wait_futex(void)
{
	return syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}
static long wait_futex_timed(void)
{
	return syscall(SYS_futex, word, FUTEX_WAIT, 0, &long_time, NULL, 0);
}
static void map_word_and_begin(void)
{
	map_word();
	begin_time();
}
static long wait_futex_expiring(void)
{
	const struct timespec limit_of_wait = {.tv_sec = seconds};
	return syscall(SYS_futex, word, FUTEX_WAIT, 0, &limit_of_wait, NULL, 0);
}
static void wake_futex(void)
{
	*word = 1;
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Waits for bytes and connections */
static void make_pair(void)
{
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
}
static void limit(int option)
{
	setsockopt(pair[0], SOL_SOCKET, option, &(struct timeval){.tv_sec = 3600},
		   sizeof(struct timeval));
}
static long wait_recv(void)
{
	char text[8];
	return recv(pair[0], text, sizeof text, 0);
}
static long wait_recv_timed(void)
{
	limit(SO_RCVTIMEO);
	return wait_recv();
}
static long wait_read_timed(void)
{
	char text[8];
	limit(SO_RCVTIMEO);
	return read(pair[0], text, sizeof text);
}
static void send_three(void)
{
	must(write(pair[1], "abc", 3) == 3, "write");
}
static void fill_pair(void)
{
	char block[4096] = {0};
	make_pair();
	while (send(pair[0], block, sizeof block, MSG_DONTWAIT) > 0)
		;
}
static long wait_send_timed(void)
{
	limit(SO_SNDTIMEO);
	return send(pair[0], "abc", 3, 0);
}
static long wait_write_timed(void)
{
	limit(SO_SNDTIMEO);
	return write(pair[0], "abc", 3);
}
static void drain_pair(void)
{
	char block[4096];
	while (recv(pair[1], block, sizeof block, MSG_DONTWAIT) > 0)
		;
}
static void open_listener(void)
{
	make_file();
	close(fd);
	unlink(path);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	pair[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	must(!bind(pair[0], (struct sockaddr *)&address, sizeof address) && !listen(pair[0], 1),
	     "listen");
}
static long wait_accept(void)
{
	return accept(pair[0], NULL, NULL) > 2;
}
static long wait_accept_timed(void)
{
	limit(SO_RCVTIMEO);
	return accept(pair[0], NULL, NULL) > 2;
}
static void connect_to(void)
{
	int to = socket(AF_UNIX, SOCK_STREAM, 0);
	must(!connect(to, (struct sockaddr *)&address, sizeof address), "connect");
}
static long wait_read_pipe(void)
{
	char text[8];
	return read(ends[0], text, sizeof text);
}
static void fill_pipe(void)
{
	char block[4096] = {0};
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], block, sizeof block) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
}
static long wait_write_pipe(void)
{
	return write(ends[1], "abc", 3);
}
static void drain_pipe(void)
{
	char block[4096];
	must(read(ends[0], block, sizeof block) > 0, "read");
}
static void open_eventfd(void)
{
	fd = eventfd(0, 0);
}
static long wait_eventfd(void)
{
	uint64_t n;
	return read(fd, &n, sizeof n);
}
static void raise_eventfd(void)
{
	eventfd_write(fd, 1);
}
static int watcher;
static void open_watcher(void)
{
	make_file();
	watcher = inotify_init1(0);
	inotify_add_watch(watcher, path, IN_ATTRIB);
}
static long wait_inotify(void)
{
	char events[4096];
	return read(watcher, events, sizeof events) >= (long)sizeof(struct inotify_event);
}
static void touch(void)
{
	chmod(path, 0640);
}
static void open_fifo(void)
{
	must(mkdtemp(folder) != NULL, "mkdtemp");
	snprintf(path, sizeof path, "%s/fifo", folder);
	must(!mkfifo(path, 0600), "mkfifo");
}
static long wait_open(void)
{
	return open(path, O_RDONLY) > 2;
}
static void open_other_end(void)
{
	helper_fd = open(path, O_WRONLY);
}
static void open_aio(void)
{
	must(!syscall(SYS_io_setup, 4, &aio), "io_setup");
	struct iocb block = {.aio_fildes = (uint32_t)ends[0],
			     .aio_lio_opcode = IOCB_CMD_POLL,
			     .aio_buf = POLLIN};
	struct iocb *list = &block;
	must(syscall(SYS_io_submit, aio, 1, &list) == 1, "io_submit");
}
static long wait_aio(void)
{
	struct io_event event;
	return syscall(SYS_io_getevents, aio, 1, 1, &event, &long_time);
}

/* Waits for the helper to end */
static long wait_wait4(void)
{
	return wait4(-1, NULL, 0, NULL) > 0;
}
static long wait_waitid(void)
{
	siginfo_t info;
	return waitid(P_ALL, 0, &info, WEXITED);
}

static const struct {
	const char *name;
	void (*before)(void), (*helper_before)(void);
	long (*wait)(void);
	void (*release)(void), (*after)(void);
} calls[] = {
	{"epoll_wait", nothing, nothing, wait_epoll, write_pipe, nothing},
	{"epoll_wait_timed", nothing, nothing, wait_epoll_timed, write_pipe, nothing},
	{"epoll_pwait", nothing, nothing, wait_epoll_pwait, write_pipe, nothing},
	{"poll", nothing, nothing, wait_poll, write_pipe, nothing},
	{"ppoll", nothing, nothing, wait_ppoll, write_pipe, nothing},
	{"select", nothing, nothing, wait_select, write_pipe, nothing},
	{"select_constant", nothing, nothing, wait_select_constant, write_pipe, nothing},
	{"pselect", nothing, nothing, wait_pselect, write_pipe, nothing},
	{"sigtimedwait", block_usr2, nothing, wait_sigtimedwait, signal_parent, nothing},
	{"sigwaitinfo", block_usr2, nothing, wait_sigwaitinfo, signal_parent, nothing},
	{"pause", handle_usr2, nothing, wait_pause, signal_parent, nothing},
	{"sigsuspend", handle_and_block_usr2, nothing, wait_sigsuspend, signal_parent, nothing},
	{"signalfd", open_signalfd, nothing, wait_signalfd, signal_parent, nothing},
	{"semop", open_semaphore, nothing, wait_semop, raise_semaphore, close_semaphore},
	{"semtimedop", open_semaphore, nothing, wait_semtimedop, raise_semaphore, close_semaphore},
	{"msgrcv", open_queue, nothing, wait_msgrcv, send_message, close_queue},
	{"msgsnd", open_full_queue, nothing, wait_msgsnd, take_message, close_queue},
	{"mq_timedreceive", open_posix_queue, nothing, wait_mq, send_mq, nothing},
	{"flock", make_file, hold_flock, wait_flock, close_lock, remove_file},
	{"fcntl_lock", make_file, hold_record, wait_record, close_lock, remove_file},
	{"nanosleep", begin_time, nothing, wait_nanosleep, nothing, end_time},
	{"clock_nanosleep", begin_time, nothing, wait_clock, nothing, end_time},
	{"clock_nanosleep_absolute", begin_time, nothing, wait_clock_absolute, nothing, end_time},
	{"timerfd", open_timer, nothing, wait_timer, nothing, end_time},
	{"poll_expiring", begin_time, nothing, wait_expiring_poll, nothing, end_time},
	{"futex", map_word, nothing, wait_futex, wake_futex, nothing},
	{"futex_timed", map_word, nothing, wait_futex_timed, wake_futex, nothing},
	{"futex_expiring", map_word_and_begin, nothing, wait_futex_expiring, nothing, end_time},
	{"recv", make_pair, nothing, wait_recv, send_three, nothing},
	{"recv_timed", make_pair, nothing, wait_recv_timed, send_three, nothing},
	{"read_timed", make_pair, nothing, wait_read_timed, send_three, nothing},
	{"send_timed", fill_pair, nothing, wait_send_timed, drain_pair, nothing},
	{"write_timed", fill_pair, nothing, wait_write_timed, drain_pair, nothing},
	{"accept", open_listener, nothing, wait_accept, connect_to, remove_file},
	{"accept_timed", open_listener, nothing, wait_accept_timed, connect_to, remove_file},
	{"read_pipe", nothing, nothing, wait_read_pipe, write_pipe, nothing},
	{"write_pipe", fill_pipe, nothing, wait_write_pipe, drain_pipe, nothing},
	{"eventfd", open_eventfd, nothing, wait_eventfd, raise_eventfd, nothing},
	{"inotify", open_watcher, nothing, wait_inotify, touch, remove_file},
	{"open_fifo", open_fifo, nothing, wait_open, open_other_end, remove_file},
	{"io_getevents", open_aio, nothing, wait_aio, write_pipe, nothing},
	{"wait4", nothing, nothing, wait_wait4, nothing, nothing},
	{"waitid", nothing, nothing, wait_waitid, nothing, nothing},
};

/* Ends without having released anything if nobody tells it to. */
static void help(size_t which, int ready)
{
	char letter;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	calls[which].helper_before();
	must(write(ready, "x", 1) == 1, "write");
	while (read(0, &letter, 1) == 1) {
		if (letter == 's')
			kill(getppid(), SIGUSR1);
		if (letter != 'r')
			continue;
		calls[which].release();
		break;
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	size_t which = 0, count_of_calls = sizeof calls / sizeof *calls;
	int ready[2];
	char letter;
	must(argc > 1 && !pipe(ends) && !pipe(ready), "usage");
	while (which < count_of_calls && strcmp(calls[which].name, argv[1]))
		which++;
	must(which < count_of_calls, "no such call");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	signal(SIGCHLD, SIG_DFL);
	if (argc > 2)
		sigaction(SIGUSR1,
			  &(struct sigaction){
				  .sa_handler = count,
				  .sa_flags = strcmp(argv[2], "restarted") ? 0 : SA_RESTART},
			  NULL);
	calls[which].before();
	pid_t helper = fork();
	if (!helper)
		help(which, ready[1]);
	must(read(ready[0], &letter, 1) == 1, "read");
	say("waits\n");
	errno = 0;
	long result = calls[which].wait();
	int error = result < 0 ? errno : 0;
	char line[64];
	snprintf(line, sizeof line, "%ld %s %d\n", result, error ? strerrorname_np(error) : "-",
		 (int)handled);
	say(line);
	kill(helper, SIGKILL);
	calls[which].after();
	return 0;
}
