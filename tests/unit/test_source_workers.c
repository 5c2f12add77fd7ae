/* A source in another process, asked over channels by several threads: every answer is the right one. And workers that
 * hang, die or lie: nobody waits long, and nothing they say is trusted. Run under ThreadSanitizer too. */
#include "pprof/source_workers.h"

#include "fake_source.h"
#include "hosted/monotonic.h"
#include "pprof/snapshots.h"
#include "pprof/source_channel.h"
#include "pprof/source_server.h"
#include "unit_test.h"

#include <signal.h>
#include <sys/socket.h>

enum { WORKER = 7, THREADS = 4, ROUNDS = 30 };

static struct fake_source fake;
static struct source_workers *workers;
static struct source source, fakes;
static struct source_server *server;
static pthread_t answerers[SOURCE_CHANNELS];
static int theirs[SOURCE_CHANNELS];

static void *answer(void *arg)
{
	source_server_answer(server, *(int *)arg);
	return NULL;
}

/* A worker whose other ends of the channels are ours. */
static void begin_silent(uint32_t number)
{
	int ours[SOURCE_CHANNELS];
	for (int i = 0; i < SOURCE_CHANNELS; i++) {
		int pair[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		ours[i] = pair[0];
		theirs[i] = pair[1];
	}
	source_workers_begin(workers, number, ours);
}

static void know(uint64_t key, uint32_t worker)
{
	const struct source_entry e = {
		.key = key, .pid = 100 + (int)key, .uid = 42, .running = true};
	source_workers_set(workers, &e, worker);
}

static int begin(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	memset(&fake, 0, sizeof fake);
	fake.count = 2;
	for (int i = 0; i < 2; i++) {
		fake.processes[i].key = (uint64_t)i + 1;
		fake.processes[i].pid = 101 + i;
		fake.processes[i].sampled = fake.processes[i].running = true;
	}
	fakes = fake_source_of(&fake);
	if (!server) /* a worker's ends with the process */
		server = source_server_new(&fakes);
	workers = source_workers_new();
	source = source_workers_source(workers);
	begin_silent(WORKER);
	for (int i = 0; i < SOURCE_CHANNELS; i++)
		pthread_create(&answerers[i], NULL, answer, &theirs[i]);
	know(1, WORKER);
	know(2, WORKER);
	return 0;
}

static int end(void **state)
{
	(void)state;
	source_workers_free(workers); /* closes the channels */
	for (int i = 0; i < SOURCE_CHANNELS; i++)
		pthread_join(answerers[i], NULL);
	return 0;
}

/* Who comes while somebody has waited for 100 ms is told to try again. */
static int describe_whole(uint64_t key, struct source_process *p, struct heft_error *err)
{
	int rc = HEFT_EBUSY;
	for (int i = 0; i < 100 && rc == HEFT_EBUSY; i++)
		if ((rc = source.describe(source.ctx, key, p, err)) == HEFT_EBUSY)
			usleep(10000);
	return rc;
}

static int take_whole(uint64_t key, void **profile, struct heft_error *err)
{
	int rc;
	while ((rc = source.take(source.ctx, key, profile, err)) == SOURCE_LATER)
		usleep(200);
	return rc;
}

static int render_whole(void *profile, const struct source_wish *wish, char **bytes, size_t *length,
			struct heft_error *err)
{
	int rc;
	while ((rc = source.render(source.ctx, profile, wish, bytes, length, err)) == SOURCE_LATER)
		usleep(200);
	return rc;
}

TEST_WITH(test_answers, begin, end)
{
	struct source_process p;
	struct heft_error err = {0};
	void *first = NULL, *second = NULL;
	char *bytes;
	size_t length;
	assert_int_equal(describe_whole(2, &p, &err), 0);
	assert_int_equal(p.pid, 102);
	assert_int_equal(p.uid, 42); /* what the supervisor said */
	assert_int_equal(describe_whole(9, &p, &err), HEFT_ENOTFOUND);
	assert_int_equal(take_whole(1, &first, &err), 0);
	assert_int_equal(take_whole(1, &second, &err), 0);
	const struct source_wish wish = {.form = SOURCE_HEAP_TEXT};
	assert_int_equal(render_whole(first, &wish, &bytes, &length, &err), 0);
	assert_non_null(strstr(bytes, "heap profile:"));
	assert_int_equal(strlen(bytes), length);
	free(bytes);
	const struct source_wish difference = {
		.form = SOURCE_HEAP, .before = first, .between_ns = 1000000000};
	assert_int_equal(render_whole(second, &difference, &bytes, &length, &err), 0);
	assert_memory_equal(bytes, "\x1f\x8b", 2);
	free(bytes);
	const struct source_wish symbols = {.form = SOURCE_SYMBOLS, .addresses = "0x1010"};
	assert_int_equal(render_whole(first, &symbols, &bytes, &length, &err), 0);
	free(bytes);
	source.drop(source.ctx, first);
	source.drop(source.ctx, second);
	fake.fails = true;
	first = NULL;
	assert_int_equal(take_whole(1, &first, &err), HEFT_EIO);
	assert_string_equal(err.message, "the table cannot be read");
	source.drop(source.ctx, first);
}

/* Another form of the same profile, asked for by somebody else meanwhile, is not taken for ours. */
TEST_WITH(test_two_wishes_at_once, begin, end)
{
	struct heft_error err = {0};
	void *profile = NULL;
	char *text = NULL, *packed = NULL;
	size_t length;
	const struct source_wish first = {.form = SOURCE_HEAP_TEXT}, second = {.form = SOURCE_HEAP};
	assert_int_equal(take_whole(1, &profile, &err), 0);
	while (!text || !packed) {
		int rc = text ? 0
			      : source.render(source.ctx, profile, &first, &text, &length, &err);
		assert_true(rc == 0 || rc == SOURCE_LATER);
		rc = packed ? 0
			    : source.render(source.ctx, profile, &second, &packed, &length, &err);
		assert_true(rc == 0 || rc == SOURCE_LATER);
	}
	assert_memory_equal(text, "heap profile:", 13);
	assert_memory_equal(packed, "\x1f\x8b", 2);
	free(text);
	free(packed);
	source.drop(source.ctx, profile);
}

static void *ask_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct heft_error err = {0};
		struct source_process p;
		void *profile = NULL;
		char *bytes = NULL;
		size_t length;
		uint64_t key = 1 + (uint64_t)i % 2;
		const struct source_wish wish = {.form = SOURCE_HEAP_TEXT};
		if (describe_whole(key, &p, &err) || p.pid != 100 + (int)key)
			abort();
		if (i % 5 == 4) { /* asks and leaves */
			(void)source.take(source.ctx, key, &profile, &err);
			source.drop(source.ctx, profile);
			continue;
		}
		if (take_whole(key, &profile, &err) ||
		    render_whole(profile, &wish, &bytes, &length, &err) ||
		    strncmp(bytes, "heap profile:", 13) != 0)
			abort();
		free(bytes);
		source.drop(source.ctx, profile);
	}
	return NULL;
}

TEST_WITH(test_many_threads, begin, end)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, ask_often, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* ---- workers that do not behave */

static int begin_alone(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	workers = source_workers_new();
	source = source_workers_source(workers);
	begin_silent(WORKER);
	know(1, WORKER);
	return 0;
}

static int end_alone(void **state)
{
	(void)state;
	source_workers_free(workers);
	for (int i = 0; i < SOURCE_CHANNELS; i++)
		if (theirs[i] >= 0)
			close(theirs[i]);
	return 0;
}

TEST_WITH(test_silence, begin_alone, end_alone)
{
	struct source_process p;
	struct heft_error err = {0};
	void *profile = NULL;
	assert_int_equal(source.describe(source.ctx, 1, &p, &err), HEFT_EBUSY); /* waits */
	uint64_t begun = monotonic_ns();
	for (int i = 0; i < 100; i++)
		assert_int_equal(source.describe(source.ctx, 1, &p, &err), HEFT_EBUSY);
	assert_true(monotonic_ns() - begun < 20000000000ull); /* does not wait: 200 s if it did */
	assert_int_equal(source.take(source.ctx, 1, &profile, &err), SOURCE_LATER);
	source_workers_end(workers, WORKER); /* it is still used */
	assert_int_equal(source.describe(source.ctx, 1, &p, &err), HEFT_EBUSY);
	for (int i = 0; i < SOURCE_CHANNELS; i++) {
		close(theirs[i]);
		theirs[i] = -1;
	}
	assert_int_equal(source.take(source.ctx, 1, &profile, &err), HEFT_EBUSY);
	source.drop(source.ctx, profile);
}

static void send_answer(int fd, const struct channel_answer *a, size_t body)
{
	char bytes[256] = {0};
	struct channel_question q;
	assert_int_equal(recv(fd, &q, sizeof q, MSG_WAITALL), sizeof q);
	assert_int_equal(send(fd, a, sizeof *a, MSG_NOSIGNAL), sizeof *a);
	if (body)
		send(fd, bytes, body, MSG_NOSIGNAL);
}

/* A worker that lies about sizes and codes loses its channel, and nobody takes memory for what it claims. */
TEST_WITH(test_lies, begin_alone, end_alone)
{
	static const struct channel_answer lies[] = {
		{.code = 0, .bytes = CHANNEL_BYTES_MOST + 1ull},
		{.code = 5, .bytes = 0},
	};
	struct heft_error err = {0};
	for (int i = 0; i < 2; i++) {
		void *profile = NULL;
		assert_int_equal(source.take(source.ctx, 1, &profile, &err), SOURCE_LATER);
		send_answer(theirs[1 + i], &lies[i], 0);
		int rc = take_whole(1, &profile, &err);
		assert_int_equal(rc, HEFT_EBUSY);
		source.drop(source.ctx, profile);
	}
}

TEST_WITH(test_a_description_of_another_size, begin_alone, end_alone)
{
	struct channel_answer a = {.bytes = 16};
	struct source_process p;
	struct heft_error err = {0};
	/* The answer is there before the question: a description is waited for. */
	assert_int_equal(send(theirs[0], &a, sizeof a, 0), sizeof a);
	char body[16] = {1};
	assert_int_equal(send(theirs[0], body, sizeof body, 0), sizeof body);
	assert_int_equal(source.describe(source.ctx, 1, &p, &err), HEFT_EBUSY);
}

TEST_WITH(test_texts_are_ended_and_flags_are_flags, begin_alone, end_alone)
{
	struct channel_answer a = {.bytes = sizeof(struct source_process)};
	struct source_process p;
	struct heft_error err = {0};
	char *body = malloc(sizeof p);
	memset(body, 0xff, sizeof p);
	assert_int_equal(send(theirs[0], &a, sizeof a, 0), sizeof a);
	assert_int_equal(send(theirs[0], body, sizeof p, 0), sizeof p);
	free(body);
	assert_int_equal(source.describe(source.ctx, 1, &p, &err), 0);
	assert_int_equal(p.key, 1);
	assert_int_equal(p.pid, 101);
	assert_int_equal(p.uid, 42);
	assert_true(p.running && p.blind);
	assert_int_equal(strlen(p.exe), sizeof p.exe - 1);
	assert_int_equal(p.command[sizeof p.command - 1], 0);
	assert_int_equal(p.command_bytes, sizeof p.command); /* at most */
}

UNIT_TESTS(NULL, NULL)
