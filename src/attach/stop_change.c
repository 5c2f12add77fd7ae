/* Code is changed while all threads are stopped, or nearly all: one that is late may still be there.
 *
 * If one is late, it must never see a half of the old and a half of the new. A change that lies in one
 * aligned word is written at once; the entry of a function mostly does. For the others a trap goes over the
 * first byte of every change, then the rest of each is written, then the first bytes. A late thread that runs
 * into the trap stops with SIGTRAP, which is ours: it runs the first instruction again, which is new by then.
 *
 * A thread whose pc is inside a change goes on in a copy of the old code, where the caller's `moved` says. So
 * does a late one, when it stops. A pc may also be in the frame of a signal handler: then the handler would
 * return into the middle of the new code. Such frames are looked for near the top of each stack. If there is
 * one, nothing is changed: the handler ends soon.
 *
 * A late thread may be in the middle of fork. Its child has the code as it was at some moment, perhaps
 * with traps. The child is traced and has not run yet; it gets the new code. Only if the fork began before we
 * traced the thread, was taken from its processor then, and copied the memory just between two of our writes,
 * the child has a trap that nobody knows of. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTLE_STEP_NS 20000
enum { WORD = 8 };

static bool inside(const struct stop_change *c, uint64_t pc)
{
	return pc > c->at && pc < c->at + c->bytes;
}

static uint64_t moved(const struct stop_change *c, uint64_t pc)
{
	return c->moved ? c->moved(c->ctx, pc) : 0;
}

static const struct stop_change *change_at(const struct stop_change *changes, size_t count,
					   uint64_t pc)
{
	for (size_t i = 0; i < count; i++)
		if (inside(&changes[i], pc))
			return &changes[i];
	return NULL;
}

struct change_list {
	const struct stop_change *changes;
	size_t count;
};

static bool is_in_a_change(const void *ctx, uint64_t pc)
{
	const struct change_list *list = ctx;
	return change_at(list->changes, list->count, pc) != NULL;
}

/* The address of the pc in a signal frame that returns into a change; 0: there is none. */
static uint64_t find_frame(struct stop *s, const struct stop_change *changes, size_t count,
			   const struct stop_thread *t)
{
	const struct change_list list = {changes, count};
	uint64_t low = UINT64_MAX, high = 0;
	for (size_t i = 0; i < count; i++) {
		low = changes[i].at < low ? changes[i].at : low;
		high = changes[i].at + changes[i].bytes > high ? changes[i].at + changes[i].bytes
							       : high;
	}
	return stack_find_frame(s, t, low, high, is_in_a_change, &list);
}

/* Where a thread that has not stopped is, if it sleeps; false: it does not, or nobody knows. */
static bool asleep_at(const struct stop *s, pid_t tid, uint64_t *sp, uint64_t *pc)
{
	char text[256];
	if (!stop_task_file(s, tid, "syscall", text, sizeof text))
		return false;
	const char *last = strrchr(text, ' ');
	if (!last || last == text)
		return false;
	*pc = strtoull(last + 1, NULL, 16);
	const char *before = last;
	while (before > text && before[-1] != ' ')
		before--;
	*sp = strtoull(before, NULL, 16);
	return *pc != 0;
}

static int check_thread(struct stop *s, const struct held *h, const struct stop_change *changes,
			size_t count, struct heft_error *err)
{
	uint64_t pc = h->pc, sp = h->sp;
	if (h->child || h->state == HELD_GONE)
		return 0;
	if (h->state == HELD_RUNS && !asleep_at(s, h->tid, &sp, &pc))
		return 0;
	const struct stop_change *c = change_at(changes, count, pc);
	if (c && !moved(c, pc))
		return heft_fail(
			err, HEFT_EBUSY,
			"thread %d of process %d is at %#llx, in the middle of what would change",
			h->tid, s->pid, (unsigned long long)pc);
	const struct stop_thread t = {h->tid, pc, sp, h->thread_pointer, h->state == HELD_STOPPED};
	if (find_frame(s, changes, count, &t))
		return heft_fail(
			err, HEFT_EBUSY,
			"thread %d of process %d is in a signal handler that will return to "
			"where the code would change",
			h->tid, s->pid);
	return 0;
}

static int check(struct stop *s, const struct stop_change *changes, size_t count,
		 struct heft_error *err)
{
	uint8_t now[STOP_CHANGE_MOST];
	for (size_t i = 0; i < count; i++) {
		const struct stop_change *c = &changes[i];
		if (!c->bytes || c->bytes > STOP_CHANGE_MOST)
			return heft_fail(err, HEFT_EUSAGE, "a change of %d bytes", c->bytes);
		int result = stop_read(s, c->at, now, c->bytes, err);
		if (result)
			return result;
		if (memcmp(now, c->old, c->bytes))
			return heft_fail(
				err, HEFT_EREFUSED,
				"process %d: the code at %#llx is not what it was, somebody "
				"else has changed it",
				s->pid, (unsigned long long)c->at);
	}
	for (size_t i = 0; i < s->held.count; i++) {
		int result = check_thread(s, s->held.items[i], changes, count, err);
		if (result)
			return result;
	}
	if (monotonic_ns() > s->until_ns)
		return heft_fail(err, HEFT_EBUSY, "process %d has been stopped for too long",
				 s->pid);
	return 0;
}

/* Late threads that are on a processor after all leave it between two steps. */
static size_t step(struct stop *s)
{
	size_t late = held_poll_all(s);
	if (late) {
		uint64_t until = monotonic_ns() + SETTLE_STEP_NS;
		while (monotonic_ns() < until)
			;
	}
	return late;
}

/* How many bytes differ: behind them the code stays as it is. */
static uint8_t changing_bytes(const struct stop_change *c)
{
	uint8_t count = c->bytes;
	while (count > 1 && c->old[count - 1] == c->now[count - 1])
		count--;
	return count;
}

/* If all that changes lies in one aligned word, that word is written at once, and there is no half. */
static bool is_one_word(const struct stop_change *c)
{
	return c->at / WORD == (c->at + changing_bytes(c) - 1) / WORD;
}

static int write_word(struct stop *s, const struct stop_change *c, const uint8_t *bytes,
		      struct heft_error *err)
{
	uint8_t word[WORD];
	uint64_t at = c->at & ~(uint64_t)(WORD - 1);
	int result = stop_read(s, at, word, sizeof word, err);
	memcpy(word + (c->at - at), bytes, changing_bytes(c));
	return result ? result : stop_write(s, at, word, sizeof word, err);
}

/* Writes the first bytes, or the rest, of the changes that are not one word. */
static int write_parts(struct stop *s, const struct stop_change *changes, size_t count, bool first,
		       const uint8_t *trap, bool back, struct heft_error *err)
{
	int result = 0;
	for (size_t i = 0; i < count && !result; i++) {
		const struct stop_change *c = &changes[i];
		const uint8_t *bytes = trap ? trap : back ? c->old : c->now;
		if (is_one_word(c))
			continue;
		if (first)
			result = stop_write(s, c->at, bytes, ARCH_TRAP_BYTES, err);
		else
			result = stop_write(s, c->at + ARCH_TRAP_BYTES, bytes + ARCH_TRAP_BYTES,
					    c->bytes - ARCH_TRAP_BYTES, err);
	}
	return result;
}

static int write_changes(struct stop *s, const struct stop_change *changes, size_t count, bool back,
			 bool late, struct heft_error *err)
{
	int result = 0;
	bool parts = false;
	for (size_t i = 0; i < count && !result; i++) {
		const struct stop_change *c = &changes[i];
		const uint8_t *bytes = back ? c->old : c->now;
		if (is_one_word(c))
			result = write_word(s, c, bytes, err);
		else if (!late)
			result = stop_write(s, c->at, bytes, c->bytes, err);
		else
			parts = true;
	}
	if (result || !parts)
		return result;
	result = write_parts(s, changes, count, true, arch_trap, back, err);
	step(s);
	if (!result)
		result = write_parts(s, changes, count, false, NULL, back, err);
	step(s);
	if (!result)
		result = write_parts(s, changes, count, true, NULL, back, err);
	return result;
}

/* Moves a stopped thread out of a change. */
static void move_out(struct stop *s, struct held *h, const struct stop_change *changes,
		     size_t count)
{
	const struct stop_change *c = change_at(changes, count, h->pc);
	uint64_t to = c ? moved(c, h->pc) : 0;
	if (to)
		arch_set_pc(h, to);
	s->repaired += to != 0;
}

/* Its handler will return to a change: it returns to the copy. */
static void move_frames(struct stop *s, const struct held *h)
{
	const struct stop_change *changes = s->changed.items;
	size_t count = s->changed.count;
	const struct stop_thread t = {h->tid, h->pc, h->sp, h->thread_pointer, true};
	uint64_t at, pc;
	while ((at = find_frame(s, changes, count, &t))) {
		if (stop_read(s, at, &pc, sizeof pc, NULL))
			return;
		const struct stop_change *c = change_at(changes, count, pc);
		uint64_t to = c ? moved(c, pc) : 0;
		if (!to || stop_write(s, at, &to, sizeof to, NULL))
			return;
	}
}

void change_repair_late(struct stop *s, struct held *h)
{
	if (h->seen || !s->changed.count)
		return;
	h->seen = true;
	for (size_t i = 0; i < s->changed.count; i++) {
		const struct stop_change *c = &s->changed.items[i];
		if (h->pc != c->at + ARCH_TRAP_BYTES || arch_trapped_at(s, h) != c->at)
			continue;
		h->signal = 0;
		s->trapped++;
		arch_set_pc(h, c->at);
	}
	if (h->state != HELD_STOPPED)
		return;
	move_out(s, h, s->changed.items, s->changed.count);
	move_frames(s, h);
}

void change_repair_child(struct stop *s, struct held *h)
{
	char path[32];
	uint8_t now[STOP_CHANGE_MOST];
	bool all_old = true;
	snprintf(path, sizeof path, "/proc/%d/mem", h->tid);
	int mem = s->changed.count ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (mem < 0)
		return;
	for (size_t i = 0; i < s->changed.count && all_old; i++) {
		const struct stop_change *c = &s->changed.items[i];
		all_old = pread(mem, now, c->bytes, (off_t)c->at) == c->bytes &&
			  !memcmp(now, c->old, c->bytes);
	}
	for (size_t i = 0; i < s->changed.count && !all_old; i++) {
		const struct stop_change *c = &s->changed.items[i];
		if (pwrite(mem, c->now, c->bytes, (off_t)c->at) != c->bytes)
			break; /* it is gone */
	}
	close(mem);
}

/* So that late threads find out what happened to them. If the change was taken back, they need to
 * know only about traps. */
static void keep_changes(struct stop *s, const struct stop_change *changes, size_t count, bool back)
{
	for (size_t i = 0; i < count; i++) {
		struct stop_change *c = &s->changed.items[s->changed.count++];
		*c = changes[i];
		if (back) {
			c->bytes = ARCH_TRAP_BYTES;
			memcpy(c->now, c->old, sizeof c->now);
		}
	}
}

int stop_change_code(struct stop *s, const struct stop_change *changes, size_t count,
		     struct heft_error *err)
{
	if (!s->all)
		return heft_fail(err, HEFT_EUSAGE, "the process is not stopped");
	if (!vector_reserve(&s->changed, count))
		return heft_fail(err, HEFT_ENOMEM, "no memory");
	size_t late = held_poll_all(s);
	int result = check(s, changes, count, err);
	if (result)
		return result;
	for (size_t i = 0; i < s->held.count; i++) {
		struct held *h = s->held.items[i];
		if (h->state != HELD_STOPPED || h->child)
			continue;
		change_repair_late(s, h); /* an earlier change of this freeze */
		h->seen = true;
	}
	/* First of all threads leave for the copies, which do the same: if heft is killed before or among the
	 * writes, nobody is inside a change. */
	for (size_t i = 0; i < s->held.count; i++)
		if (s->held.items[i]->seen)
			move_out(s, s->held.items[i], changes, count);
	if (s->unasked == 1)
		held_interrupt_all(s);
	result = write_changes(s, changes, count, false, late, err);
	if (result) {
		write_changes(s, changes, count, true, late, NULL);
		keep_changes(s, changes, count, true);
		return result;
	}
	keep_changes(s, changes, count, false);
	return 0;
}
