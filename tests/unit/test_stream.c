/* The streams from both ends at once: threads write records as the hooks do,
 * through the library's own code, while the recorder's own code reads, recycles
 * chunks and closes streams. Every record must arrive once, in its thread's
 * order, and none older than the watermark of the round before. Run under
 * ThreadSanitizer too. */
#include "capture/hotpath.h"
#include "capture/ledger_request.h"
#include "capture/map_calls.h"
#include "record/recorded_process.h"
#include "unit_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the other half of the library would bring. */
struct heft_process *heft_process;
_Atomic uint64_t sys_forbidden;
struct heft_part heft_part = HEFT_PART_ALL;
struct heft_next heft_next;
unsigned char heft_arena[HEFT_ARENA_BYTES];
union heft_unusual heft_unusual;
uint8_t heft_sampling;
int heft_process_open(void)
{
	return -1;
}
static pthread_key_t end_of_thread;
static pthread_once_t end_of_thread_made = PTHREAD_ONCE_INIT;
static void thread_ends(void *thread)
{
	heft_thread_ends(thread);
}
static void make_end_of_thread(void)
{
	pthread_key_create(&end_of_thread, thread_ends);
}
void heft_watch_end_of_thread(const void *t)
{
	pthread_once(&end_of_thread_made, make_end_of_thread);
	pthread_setspecific(end_of_thread, t);
}
void heft_break_look(struct heft_thread *t)
{
	(void)t;
}
void heft_frames_reset(struct heft_thread *t, struct heft_frame *memory)
{
	t->frames_memory = memory;
}
void heft_ledger_watch(struct heft_thread *t)
{
	(void)t;
}
uint32_t heft_site(struct heft_thread *t, uintptr_t hook, unsigned via)
{
	(void)t, (void)hook;
	return via;
}
bool heft_nested(struct heft_tls *tls, uintptr_t here)
{
	(void)tls, (void)here;
	return false;
}

enum { WRITERS = 4, GENERATIONS = 3, RECORDS = 40000, FEW_CHUNKS = 24 };

static struct process *reader;
static char dir[] = "/tmp/heft-test-stream-XXXXXX";

static void begin(uint32_t chunks)
{
	strcpy(strrchr(dir, '-') + 1, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	char path[128];
	char name[32];
	snprintf(name, sizeof name, "%x.1", getpid());
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, WIRE_FILE_BYTES), 0);
	void *base = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	heft_process = mmap(NULL, sizeof *heft_process, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	heft_process->session = wire_session_at(base);
	struct wire_header *h = heft_process->session.header;
	h->version = WIRE_VERSION;
	h->pid = getpid();
	atomic_store(&h->fresh, WIRE_CHUNKS - chunks);
	atomic_store(&h->state, WIRE_ON);
	atomic_store(&h->magic, WIRE_MAGIC);
	atomic_store(&heft_process->phase, HEFT_OPEN);
	int d = open(dir, O_RDONLY | O_DIRECTORY);
	struct heft_error err;
	assert_int_equal(recorded_process_open(&reader, d, name, &err), 0);
	/* Both ends share one mapping, as ThreadSanitizer sees addresses. */
	munmap(reader->view.base, WIRE_FILE_BYTES);
	reader->view.base = base;
	reader->view.session = heft_process->session;
	close(d);
	unlink(path);
	rmdir(dir);
}

static void end(void)
{
	process_free(reader);
	munmap(heft_process, sizeof *heft_process);
	heft_process = NULL;
}

static _Atomic int running;
static _Atomic uint64_t written;

static void *writer(void *arg)
{
	uint64_t id = (uint64_t)(uintptr_t)arg;
	struct heft_tls *tls = &heft_tls;
	for (uint64_t i = 1; i <= RECORDS; i++) {
		struct heft_thread *t = thread_with_space(tls);
		if (!t)
			continue;
		if (i % 3)
			record_any_address(t, WIRE_FREE, WIRE_EXT_FREE, id << 32 | i << 3);
		else
			record_block(t, WIRE_EXT_ALLOC, (void *)(id << 32 | i << 3), i,
				     WIRE_USABLE_UNKNOWN, 1);
		atomic_fetch_add(&written, 1);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void *writers(void *arg)
{
	(void)arg;
	for (uintptr_t g = 0; g < GENERATIONS; g++) {
		pthread_t t[WRITERS];
		for (uintptr_t i = 0; i < WRITERS; i++)
			pthread_create(&t[i], NULL, writer, (void *)(g * WRITERS + i + 1));
		for (int i = 0; i < WRITERS; i++)
			pthread_join(t[i], NULL);
	}
	return NULL;
}

TEST(test_every_record_arrives_once)
{
	begin(FEW_CHUNKS);
	static uint64_t last[GENERATIONS * WRITERS + 1];
	uint64_t got = 0, watermark = 0, late = 0, latest = 0;
	atomic_store(&running, GENERATIONS * WRITERS);
	pthread_t all;
	pthread_create(&all, NULL, writers, NULL);
	for (bool over = false;;) {
		bool was_over = over;
		over = atomic_load(&running) == 0;
		uint64_t round = arch_stamp_after();
		syscall(SYS_membarrier, 1 << 0, 0,
			0); /* GLOBAL: the writers are not registered here */
		assert_true(streams_look(&reader->view, round, got + 1, false) >= 0);
		uint64_t bound = round;
		for (uint32_t i = 0; i < reader->view.slots; i++) {
			struct stream *s = &reader->view.streams[i];
			if (!s->active)
				continue;
			while (s->more) {
				uint64_t w = s->chunk->data[s->pos / 8];
				uint64_t addr = wire_addr_of(w), id = addr >> 32,
					 n = (uint32_t)addr >> 3;
				bool block = wire_type_of(w) == WIRE_ALLOC;
				assert_true(id >= 1 && id <= GENERATIONS * WRITERS);
				assert_int_equal(n, ++last[id]);
				assert_int_equal(wire_type_of(w), n % 3 ? WIRE_FREE : WIRE_ALLOC);
				if (block)
					assert_int_equal(block_size(s->chunk->data[s->pos / 8 + 1]),
							 n);
				if (s->next_tsc < watermark) {
					late++;
					if (watermark - s->next_tsc > latest)
						latest = watermark - s->next_tsc;
				}
				s->tsc = s->next_tsc;
				s->pos += block ? 16 : 8;
				got++;
				assert_int_equal(stream_advance(s), 0);
			}
			if (s->open) {
				uint64_t b = s->tsc > s->bound ? s->tsc : s->bound;
				bound = b < bound ? b : bound;
			}
		}
		watermark = bound > watermark ? bound : watermark;
		streams_give_back(&reader->view, getpid());
		if (was_over)
			break;
	}
	pthread_join(all, NULL);
	assert_int_equal(got, atomic_load(&written));
	assert_int_equal(got, (uint64_t)GENERATIONS * WRITERS * RECORDS);
	if (late)
		fail_msg("%llu records are late, by up to %llu cycles", (unsigned long long)late,
			 (unsigned long long)latest);
	/* Slots and chunks were used again: three generations in the place of one. */
	assert_true(reader->view.slots <= 2 * WRITERS + 1);
	end();
}

static void *one_writer(void *arg)
{
	writer((void *)1);
	return arg;
}

TEST(test_a_dead_recorder_is_left_behind)
{
	begin(3);
	atomic_store(&running, 1);
	atomic_store(&written, 0);
	pthread_t t;
	pthread_create(&t, NULL, one_writer, NULL);
	pthread_join(t, NULL); /* nobody reads: it must end by itself */
	struct wire_header *h = heft_process->session.header;
	assert_int_equal(atomic_load(&h->state), WIRE_OFF);
	assert_true(atomic_load(&h->off_tsc) > 0);
	uint64_t missing = atomic_load(&heft_process->session.streams[0].dropped);
	assert_int_equal(missing + atomic_load(&written), RECORDS);
	assert_true(missing > 0);
	end();
}

TEST(test_garbage_is_noticed)
{
	begin(FEW_CHUNKS);
	atomic_store(&running, 1);
	struct heft_thread *t = heft_make_space();
	assert_non_null(t);
	record_any_address(t, WIRE_FREE, WIRE_EXT_FREE, 0x1000);
	assert_int_equal(streams_look(&reader->view, arch_stamp(), 1, false), 1);
	atomic_store(&t->chunk->pos, 99999999);
	assert_true(streams_look(&reader->view, arch_stamp(), 2, false) < 0);
	atomic_store(&t->chunk->pos, 8);
	atomic_store(&t->chunk->next, 1u << 30);
	reader->view.streams[0].pos = 8;
	assert_true(streams_look(&reader->view, arch_stamp(), 3, false) < 0);
	/* Streams that were there do not go: what they had open would hold up all others for ever. */
	atomic_store(&heft_process->session.header->stream_high, 0);
	assert_true(streams_look(&reader->view, arch_stamp(), 4, true) < 0);
	atomic_store(&heft_process->session.header->stream_high, 1u << 31);
	assert_true(streams_look(&reader->view, arch_stamp(), 4, false) < 0);
	heft_tls.thread = NULL;
	end();
}

UNIT_TESTS(NULL, NULL)
