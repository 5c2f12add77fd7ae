/* What only the library does: it begins with the program, hears of forks and of the
 * ends of threads, and stands in for two functions of libc. The blob (blob.c) comes
 * later, and has none of this. */
#include "capture/count.h"
#include "capture/hooks.h"
#include "capture/mempools.h"
#include "capture/settings.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

enum { THREAD_LOCAL_MOST = 64 << 20 };

/* ---- the start */

/* The outside knows of a fork() before it happens, so that it waits for a child whose parent ends at
 * once. The child opens its file right away for the same reason. Other ways to fork show at the child's
 * first event. */
static void before_fork(void)
{
	struct heft_process *p = heft_process;
	if (p && atomic_load(&p->phase) == HEFT_OPEN)
		atomic_fetch_add(&p->session.header->forks, 1);
}

static void in_child(void)
{
	heft_open_now();
}

/* A program that never allocates, or whose malloc is not ours, is in the recording too. */
__attribute__((constructor)) static void at_start(void)
{
	struct heft_own_work work = heft_own_work_begin();
	if (!heft_process_open()) {
		pthread_atfork(before_fork, NULL, in_child);
		if (heft_settings.mempools)
			heft_mempools_start();
	}
	if (heft_settings.follow_none && environ)
		heft_settings_remove(environ);
	heft_own_work_end(work);
}

static int add_tls(struct dl_phdr_info *info, size_t bytes, void *most)
{
	uintptr_t below = (uintptr_t)arch_thread_pointer() - (uintptr_t)info->dlpi_tls_data;
	(void)bytes;
	if (info->dlpi_tls_data && below < THREAD_LOCAL_MOST && below > *(uintptr_t *)most)
		*(uintptr_t *)most = below;
	return 0;
}

static __attribute__((constructor)) void measure_tls(void)
{
	uintptr_t most = 0;
	dl_iterate_phdr(add_tls, &most);
	heft_set_home_reach(most);
}

/* ---- the ends of threads */

static pthread_key_t end_of_thread;
static _Atomic int end_of_thread_ready;

static void thread_ends(void *of_thread)
{
	(void)of_thread;
	struct heft_thread *t = heft_tls_now()->thread;
	if (t)
		heft_thread_ends(t);
	heft_count_thread_ends();
}

void heft_watch_end_of_thread(const void *of_thread)
{
	int never = 0;
	if (atomic_compare_exchange_strong(&end_of_thread_ready, &never, 1))
		atomic_store(&end_of_thread_ready,
			     pthread_key_create(&end_of_thread, thread_ends) ? 3 : 2);
	if (atomic_load(&end_of_thread_ready) == 2)
		pthread_setspecific(end_of_thread, of_thread);
}

/* ---- other functions that the inside must see */

EXPORT int dlclose(void *handle)
{
	int rc = heft_next.dlclose ? heft_next.dlclose(handle) : -1;
	heft_after_dlclose();
	return rc;
}

void *heft_too_large(void *old, size_t n, size_t each)
{
	(void)old, (void)n, (void)each;
	errno = ENOMEM;
	return NULL;
}

EXPORT int pthread_setname_np(unsigned long thread, const char *name)
{
	int rc = heft_next.setname ? heft_next.setname(thread, name) : ENOSYS;
	heft_thread_renamed();
	return rc;
}
