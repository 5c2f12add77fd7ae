/* A library in heft's place, for tests of the bindings: each function of heft.h writes a line with its arguments.
 *
 * Every set of statistics is {1, 2, 3, 4, 5, -6, -7, 8}, and running says 3. The first region has the number 0 in its
 * memory, the next one 1. STAND_IN_ERRNO=N: functions that can fail do so with this errno. */
#include <heft.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct heft_stats numbers = {1, 2, 3, 4, 5, -6, -7, 8};
static void (*callback)(const char *message);
static uint64_t regions;

#define SAY(...) dprintf(STDERR_FILENO, __VA_ARGS__)

static int answer(struct heft_stats *out)
{
	const char *failure = getenv("STAND_IN_ERRNO");
	if (failure) {
		errno = atoi(failure);
		return -1;
	}
	if (out)
		*out = numbers;
	return 0;
}

/* Where its pool was created: pools are numbered from 0. */
static size_t number_of(const void *pool)
{
	static const void *pools[16];
	static size_t count;
	size_t i = 0;
	while (i < count && pools[i] != pool)
		i++;
	if (i == count)
		pools[count++] = pool;
	return i;
}

/* The names are macros, too; in parentheses they are functions. */
int(heft_running)(void)
{
	return HEFT_COUNTING;
}

int(heft_stats_get)(enum heft_scope scope, struct heft_stats *out)
{
	SAY("stats_get %d\n", scope);
	return answer(out);
}

int(heft_region_begin_named)(struct heft_region *r, enum heft_scope scope, const char *name)
{
	memset(r, 0xa5, sizeof *r);
	r->opaque[31] = regions++;
	SAY("begin %d %d %s\n", (int)r->opaque[31], scope, name ? name : "-");
	return answer(NULL);
}

int(heft_region_begin)(struct heft_region *r, enum heft_scope scope)
{
	return (heft_region_begin_named)(r, scope, NULL);
}

int(heft_region_change)(const struct heft_region *r, struct heft_stats *out)
{
	SAY("change %d\n", (int)r->opaque[31]);
	return answer(out);
}

int(heft_region_end)(struct heft_region *r, struct heft_stats *out)
{
	SAY("end %d\n", (int)r->opaque[31]);
	return answer(out);
}

void(heft_on_failure)(void (*function)(const char *message))
{
	callback = function;
}

int(heft_expect_or)(const struct heft_region *r, size_t at, enum heft_relation relation,
		    int64_t value, const char *field, const char *file, int line,
		    void (*function)(const char *message))
{
	int64_t number;
	char message[1000];
	if (answer(NULL))
		return -1;
	memcpy(&number, (const char *)&numbers + at, sizeof number);
	if (relation == HEFT_EQUAL ? number == value : number <= value)
		return 1;
	snprintf(message, sizeof message, "%s:%d: %s of region %d is %lld, expected %s%lld", file,
		 line, field, (int)r->opaque[31], (long long)number,
		 relation == HEFT_EQUAL ? "" : "at most ", (long long)value);
	if (!function) {
		SAY("%s\n", message);
		abort();
	}
	function(message);
	return 0;
}

int(heft_expect)(const struct heft_region *r, size_t at, enum heft_relation relation, int64_t value,
		 const char *field, const char *file, int line)
{
	return (heft_expect_or)(r, at, relation, value, field, file, line, callback);
}

void(heft_mark)(const char *name)
{
	SAY("mark %s\n", name);
}

void(heft_mark_block)(const void *block, const char *stage)
{
	SAY("mark_block %s %s\n", (const char *)block, stage);
}

void(heft_event)(const char *name, uint64_t weight)
{
	SAY("event %s %llu\n", name, (unsigned long long)weight);
}

void(heft_pool_create)(void *pool, const char *name)
{
	SAY("pool %d create %s\n", (int)number_of(pool), name);
}

void(heft_pool_alloc)(void *pool, const void *block, size_t size)
{
	SAY("pool %d alloc %d %zu\n", (int)number_of(pool), block != NULL, size);
}

void(heft_pool_free)(void *pool, const void *block)
{
	SAY("pool %d free %d\n", (int)number_of(pool), block != NULL);
}

void(heft_pool_destroy)(void *pool)
{
	SAY("pool %d destroy\n", (int)number_of(pool));
}

int(heft_start)(void)
{
	SAY("start\n");
	return answer(NULL);
}

int(heft_stop)(void)
{
	SAY("stop\n");
	return answer(NULL);
}

int(heft_dump)(const char *path)
{
	SAY("dump %s\n", path);
	return answer(NULL);
}

int(heft_sampling_active)(void)
{
	return 1;
}

int(heft_pprof_dump)(int fd)
{
	return answer(NULL) || write(fd, "profile", 7) != 7 ? -1 : 0;
}
