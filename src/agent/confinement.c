/* Limits and a filter of system calls. The filter names what is forbidden, not what is allowed: libraries change which
 * calls they use, and a worker must not die of an update. What it forbids is what makes a broken-into worker useful to
 * somebody: other programs, other processes, the network, mounts, and the parts of the kernel that few programs need.
 * A call that is forbidden fails with EPERM. */
#include "agent/confinement.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef OUR_ARCH
static const uint32_t forbidden[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kcmp,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_unshare,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_open_by_handle_at,
	SYS_personality,
	SYS_quotactl,
	SYS_kill,
	SYS_tkill,
	SYS_tgkill,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_io_uring_setup,
	SYS_pidfd_getfd,
	SYS_pidfd_send_signal,
	SYS_move_pages,
	SYS_process_madvise,
	SYS_move_mount,
	SYS_open_tree,
	SYS_fsopen,
};
/* Only for who answers the network. Without sendmsg no descriptor is passed on: closing one of a stranger's file system
 * could hang the receiver. */
static const uint32_t of_the_network[] = {
	SYS_socket, SYS_connect, SYS_bind,    SYS_listen,
	SYS_accept, SYS_accept4, SYS_sendmsg, SYS_sendmmsg,
};
enum {
	FORBIDDEN = sizeof forbidden / sizeof *forbidden,
	NETWORK = sizeof of_the_network / sizeof *of_the_network,
	NAMESPACES = 0x7e020000,    /* CLONE_NEW* */
	FOREIGN_CALLS = 0x40000000, /* x32's numbers begin here */
};

/* Behind the list of calls: clone3 is not there (libc then uses clone), clone makes no namespaces, and limits are one's
 * own. Its end is: allow, refuse, not there. */
static const struct sock_filter tail[] = {
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 9, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 3, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 3, 2),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA)),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (ENOSYS & SECCOMP_RET_DATA)),
};
enum { TAIL = sizeof tail / sizeof *tail, REFUSE = TAIL - 2 };

static bool install_filter(bool network)
{
	struct sock_filter code[5 + FORBIDDEN + NETWORK + TAIL];
	unsigned short n = 0, count = (unsigned short)(FORBIDDEN + (network ? 0 : NETWORK));
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_CALLS,
						 (unsigned char)(count + REFUSE), 0);
	for (unsigned short i = 0; i < count; i++) {
		uint32_t nr = i < FORBIDDEN ? forbidden[i] : of_the_network[i - FORBIDDEN];
		code[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, nr, (unsigned char)(count - 1 - i + REFUSE), 0);
	}
	memcpy(code + n, tail, sizeof tail);
	n += TAIL;
	const struct sock_fprog program = {.len = n, .filter = code};
	/* All threads that there are already: a server has begun to listen. */
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
	       0;
}
#else
static bool install_filter(bool network)
{
	(void)network;
	return false;
}
#endif

static void limit(int what, uint64_t most)
{
	if (most)
		setrlimit((__rlimit_resource_t)what, &(struct rlimit){most, most});
}

bool confinement_enter(const struct confinement *s, int parent)
{
	prctl(PR_SET_NAME, s->name);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
#ifndef __SANITIZE_ADDRESS__ /* whose shadow is far larger */
	limit(RLIMIT_DATA, s->data_bytes);
#endif
	limit(RLIMIT_FSIZE, s->file_bytes);
	if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		return false;
	install_filter(s->network); /* a kernel without it is no reason to do without the rest */
	return true;
}

void confinement_keep_descriptors(int *fds, int count, bool keep_stderr)
{
	int null = open("/dev/null", O_RDWR);
	setsid();
	for (int i = 0; null >= 0 && i < (keep_stderr ? 2 : 3); i++)
		dup2(null, i);
	/* First out of the way of each other, */
	for (int i = 0; i < count; i++)
		fds[i] = fcntl(fds[i], F_DUPFD, 64 + count);
	for (int i = 0; i < count; i++) {
		dup2(fds[i], 3 + i);
		fds[i] = 3 + i;
	}
	/* and then all others go. */
	if (syscall(SYS_close_range, 3u + (unsigned)count, ~0u, 0) == 0)
		return;
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	while (dir && (e = readdir(dir)))
		if (atoi(e->d_name) >= 3 + count && atoi(e->d_name) != dirfd(dir))
			close(atoi(e->d_name));
	if (dir)
		closedir(dir);
}
