/* The blob's hooks of execve and its siblings: what a program executes is followed as by the library (next_program.c).
 *
 * libc's own calls lead here, too: those of posix_spawn, system and popen come from a child that shares the memory
 * and stands on a small stack that libc has made for it (musl: 5 KiB). So the work is done on a stack of ours. Each
 * thread that has executed something has one, found by its thread pointer, which such a child has from its
 * parent: the parent waits meanwhile, so there is one user at a time. It stays until the thread's next exec.
 *
 * If the exec succeeds, this never returns. A child that shares the memory must leave nothing behind then:
 * `inside` of its parent is not set. Detaching waits until there is no such child
 * (attach/stop_sharers.c), so nobody needs it. In all others it is set.
 *
 * The program's sandbox, if it has one since, is not known here: one question more, and it executes without heft. */
#include "capture/blob_exec.h"

#include "capture/next_program.h"
#include "capture/own_memory.h"
#include "capture/preloadable.h"
#include "wire/blob.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { STACKS = 64, STACK_BYTES = 48 << 10 };

/* What one thread has for this */
static struct exec_memory {
	_Atomic uintptr_t thread; /* its pointer; 0: free */
	_Atomic int32_t user;     /* the number of who uses it, or used it last and has executed */
	char *stack;              /* its lower end */
	void *environment;
	size_t environment_bytes;
} memories[STACKS];

struct exec_call {
	int folder;
	const char *path, *name; /* the file, and what the note calls it */
	char *const *env;
	struct exec_memory *memory;
	struct heft_leaving leaving;
};

/* ---- sandboxes: in place of sandbox.c */

uint64_t heft_sandbox_leave(void)
{
	return 0;
}

void heft_sandbox_return(uint64_t added)
{
	(void)added;
}

int heft_sandbox_has_filter(void)
{
	return atomic_load_explicit(&sys_forbidden, memory_order_relaxed) ||
	       sys_call4(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0) != 0;
}

/* ---- memory */

/* Maps more if there is not enough. */
static int reserve(void **at, size_t *bytes, size_t need)
{
	if (*bytes >= need)
		return 1;
	if (*at)
		heft_unmap_own(*at, *bytes);
	*bytes = (need + 4095) & ~(size_t)4095;
	*at = sys_mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (*at)
		heft_mapped_own(*at, *bytes);
	else
		*bytes = 0;
	return *at != NULL;
}

/* NULL: there is none, or a signal handler executes something while this thread is in here. */
static struct exec_memory *take_memory(void)
{
	const uintptr_t thread = (uintptr_t)arch_thread_pointer();
	const int32_t self = sys_gettid();
	for (unsigned i = 0; i < STACKS; i++) {
		struct exec_memory *m = &memories[i];
		uintptr_t none = 0;
		size_t bytes = m->stack ? STACK_BYTES : 0;
		void *stack = m->stack;
		if (!atomic_compare_exchange_strong(&m->thread, &none, thread) && none != thread)
			continue;
		if (atomic_exchange(&m->user, self) == self ||
		    !reserve(&stack, &bytes, STACK_BYTES))
			return NULL;
		m->stack = stack;
		return m;
	}
	return NULL;
}

/* Calls work(c) on another stack. */
__attribute__((naked, noinline)) static void on_stack(struct exec_call *c __attribute__((unused)),
						      void (*work)(struct exec_call *)
							      __attribute__((unused)),
						      void *top __attribute__((unused)))
{
	__asm__("push %rbp\n\t"
		"mov %rsp, %rbp\n\t"
		"mov %rdx, %rsp\n\t"
		"call *%rsi\n\t"
		"leave\n\t"
		"ret");
}

/* ---- before and after */

static void prepare(struct exec_call *c)
{
	struct exec_memory *m = c->memory;
	struct heft_next_program next = heft_next_program(c->folder, c->path, NULL);
	c->leaving = heft_about_to_exec(c->name, &next);
	const struct heft_missing missing = heft_missing_in(c->env);
	size_t bytes = heft_next_environment_bytes(&missing, &next);
	if (bytes && reserve(&m->environment, &m->environment_bytes, bytes))
		c->env = heft_next_environment(m->environment, c->env, &missing, &next);
}

static void failed(struct exec_call *c)
{
	heft_exec_failed(&c->leaving);
}

/* A child of vfork has its parent's descriptor, with the parent's number. */
static bool shares_memory(void)
{
	return heft_around_tid() != sys_gettid();
}

static int with_memory(struct exec_call *c, void (*work)(struct exec_call *))
{
	on_stack(c, work, c->memory->stack + STACK_BYTES);
	return 0;
}

/* See above about children that share the memory. */
#define MARKED(call) (shares_memory() ? (call) : HEFT_WAITED_FOR(int, (call)))

static void begin(struct exec_call *c)
{
	c->memory = heft_blob.preload_path[0] && !heft_sandbox_has_filter() ? take_memory() : NULL;
	if (c->memory)
		MARKED(with_memory(c, prepare));
}

static void end(struct exec_call *c)
{
	if (!c->memory)
		return;
	MARKED(with_memory(c, failed));
	atomic_store(&c->memory->user, 0);
}

int heft_blob_execve(const char *path, char *const *argv, char *const *env, long unused,
		     long unused_too, const struct wire_blob_entry *entry)
{
	int (*next)(const char *, char *const *,
		    char *const *) = (__typeof__(next))(uintptr_t)entry->next;
	struct exec_call c = {.folder = SYS_NO_FOLDER, .path = path, .name = path, .env = env};
	(void)unused, (void)unused_too;
	begin(&c);
	int rc = MARKED(next(path, argv, c.env));
	end(&c);
	return rc;
}

int heft_blob_execveat(long folder, const char *path, char *const *argv, char *const *env,
		       long flags, const struct wire_blob_entry *entry)
{
	int (*next)(long, const char *, char *const *, char *const *,
		    long) = (__typeof__(next))(uintptr_t)entry->next;
	struct heft_looked seen = {0};
	char opened[HEFT_FD_PATH];
	const int named = heft_text_bytes(&seen, path, 1) > 0;
	struct exec_call c = {.folder = (int)folder,
			      .path = named ? path : heft_fd_path((int)folder, opened),
			      .name = named ? path : heft_first_of(argv),
			      .env = env};
	begin(&c);
	int rc = MARKED(next(folder, path, argv, c.env, flags));
	end(&c);
	return rc;
}

int heft_blob_fexecve(long fd, char *const *argv, char *const *env, long unused, long unused_too,
		      const struct wire_blob_entry *entry)
{
	int (*next)(long, char *const *, char *const *) = (__typeof__(next))(uintptr_t)entry->next;
	char opened[HEFT_FD_PATH];
	struct exec_call c = {.folder = SYS_NO_FOLDER,
			      .path = heft_fd_path((int)fd, opened),
			      .name = heft_first_of(argv),
			      .env = env};
	(void)unused, (void)unused_too;
	if (argv && env) /* else it fails; with an environment of ours it might not */
		begin(&c);
	int rc = MARKED(next(fd, argv, c.env));
	end(&c);
	return rc;
}
