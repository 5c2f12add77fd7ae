/* Processes that come, change and go in a set, as a recorder's or agent's loop makes them do, while
 * several threads list them and take their profiles, as a server's do. Run under ThreadSanitizer. */
#include "cli/live_source.h"
#include "profile/profile.h"
#include "agent/sampled.h"

#include "sampled_session.h"
#include "unit_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 60, KEPT = 3 };

static char folder[] = "/tmp/heft-live-XXXXXX";

static void write_session(const char *name)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	void *base = sampled_session_make(fd);
	assert_non_null(base);
	munmap(base, WIRE_FILE_BYTES);
	close(fd);
}

static struct process *open_session(int number)
{
	char name[64], path[128];
	struct process *p;
	struct heft_error err;
	snprintf(name, sizeof name, "%x.%x", getpid(), number);
	snprintf(path, sizeof path, "%s/%s", folder, name);
	write_session(name);
	int dir = open(folder, O_RDONLY | O_DIRECTORY);
	assert_int_equal(process_open(&p, dir, name, &err), 0);
	close(dir);
	unlink(path);
	return p;
}

struct asking {
	struct source source;
	_Atomic bool stop;
	_Atomic uint64_t profiles;
};

static void *ask(void *arg)
{
	struct asking *a = arg;
	while (!a->stop) {
		struct source_entry *list;
		struct heft_error err;
		uint32_t count;
		if (a->source.list(a->source.ctx, &list, &count, &err))
			abort();
		for (uint32_t i = 0; i < count; i++) {
			struct source_process about;
			void *taken = NULL;
			int rc = a->source.describe(a->source.ctx, list[i].key, &about, &err);
			if (rc == HEFT_ENOTFOUND)
				continue; /* it went in between */
			if (rc || about.key != list[i].key || about.live_samples != BLOCKS ||
			    about.live_bytes != (double)BLOCKS * BLOCK_BYTES)
				abort();
			rc = a->source.take(a->source.ctx, list[i].key, &taken, &err);
			if (rc == HEFT_ENOTFOUND)
				continue; /* it went in between */
			const struct profile *p = taken;
			if (rc || p->totals.live_bytes != (uint64_t)BLOCKS * BLOCK_BYTES)
				abort();
			a->source.drop(a->source.ctx, taken);
			a->profiles++;
		}
		free(list);
	}
	return NULL;
}

TEST(test_while_the_loop_goes_on)
{
	struct process_set set;
	struct live_source live = {.set = &set};
	struct asking asking = {.source = live_source(&live)};
	pthread_t threads[THREADS];
	process_set_init(&set);
	process_set_start_heartbeat(&set, NULL);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &asking), 0);
	for (int round = 0; round < ROUNDS || asking.profiles < ROUNDS; round++) {
		struct process *p = open_session(round + 1);
		assert_int_equal(process_set_add(&set, p), 0);
		assert_int_equal(p->place.key, round + 1);
		for (uint32_t i = 0; i < set.count; i++) {
			sampled_see_peak(set.list[i]);
			sampled_follow_budget(set.list[i]);
			process_watch_memory(set.list[i]);
		}
		process_ended_as(p, TRACE_END_UNKNOWN, 1000);
		if (set.count > KEPT)
			process_set_remove(&set, set.list[0]);
	}
	asking.stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	process_set_fini(&set);
}

TEST(test_keys_are_not_reused)
{
	struct process_set set;
	process_set_init(&set);
	struct process *a = open_session(1000), *b = open_session(1001);
	process_set_add(&set, a);
	uint64_t first = a->place.key;
	assert_ptr_equal(process_set_hold(&set, first), a);
	process_set_remove(&set, a); /* still held: not freed */
	assert_null(process_set_hold(&set, first));
	assert_int_equal(a->pid, getpid());
	process_set_release(&set, a);
	process_set_add(&set, b);
	assert_true(b->place.key > first);
	process_set_fini(&set);
}

TEST(test_what_cannot_be_switched)
{
	struct process_set set;
	struct live_source live = {.set = &set};
	struct source source = live_source(&live);
	struct heft_error err;
	process_set_init(&set);
	struct process *p = open_session(2000);
	process_set_add(&set, p);
	struct source_control c = {
		.set_on = true, .on = false, .set_rate = true, .rate_bytes = 1 << 20};
	assert_int_equal(source.control(source.ctx, p->place.key, &c, &err), 0);
	assert_int_equal(p->view.session.header->sampling.on, 0);
	assert_int_equal(p->view.session.header->sampling.rate_bytes, 1 << 20);
	c.rate_bytes = 1;
	assert_int_equal(source.control(source.ctx, p->place.key, &c, &err), HEFT_EUSAGE);
	assert_int_equal(source.control(source.ctx, 99, &(struct source_control){0}, &err),
			 HEFT_ENOTFOUND);
	p->view.sampled = false;
	assert_int_equal(
		source.control(source.ctx, p->place.key, &(struct source_control){0}, &err),
		HEFT_EREFUSED);
	p->view.sampled = true;
	process_ended_as(p, TRACE_END_EXEC, 1);
	assert_int_equal(
		source.control(source.ctx, p->place.key, &(struct source_control){0}, &err),
		HEFT_EREFUSED);
	process_set_fini(&set);
}

int main(void)
{
	if (!mkdtemp(folder))
		return 1;
	int failed = unit_tests_run(NULL, NULL);
	rmdir(folder);
	return failed;
}
