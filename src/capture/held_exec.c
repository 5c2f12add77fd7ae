/* Before the exec of a program that no library can be preloaded into.
 *
 * The recorder of `heft run` can hold such a program at its first instruction and hook its
 * malloc, but it must trace the process before that executes. So the process asks through
 * its session file (struct wire_hold) and waits. Who does not answer in time is not waited for
 * again in this process. The wait is in the child that executes, which may be one of vfork: then its parent stands
 * still as long. Nothing here takes a lock or allocates.
 *
 * libc executes what posix_spawn starts, and no process can ask: there the thread that calls it asks. It is traced
 * until it has made the child, which is traced from its beginning.
 *
 * Where Yama lets only parents trace, the process allows it: everybody while it waits,
 * then the tracer alone.
 *
 * Nothing is asked by a process that has installed a filter of system calls: allowing and asking
 * need calls that the filter may kill it for. */
#include "capture/held_exec.h"

#include "capture/settings.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>

#define ANSWER_NS 500000000ull /* without any progress of the recorder */
#define LIMIT_NS 5000000000ull /* with progress: the machine is busy */
/* A look after a longer time says that we stood still, and with the machine perhaps the recorder, too. */
#define LONGEST_LOOK_NS 100000000ull
enum { FUTEX_WAIT_SHARED = 0, FUTEX_WAKE_SHARED = 1, MONOTONIC = 1 };

static _Atomic uint32_t nobody_answers;

/* Where only some may trace a process */
static int must_allow(void)
{
	char scope = '0';
	int fd = sys_open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	long n = sys_read(fd, &scope, 1);
	sys_close(fd);
	return n == 1 && scope != '0';
}

static void allow(unsigned long tracer)
{
	if (must_allow())
		sys_prctl(PR_SET_PTRACER, tracer);
}

/* How long to wait for the outside */
struct patience {
	uint64_t looked, silent_ns, limit;
	uint32_t progress;
};

static struct patience patience_begin(void)
{
	const uint64_t now = sys_clock_ns(MONOTONIC);
	return (struct patience){
		.looked = now,
		.limit = now + LIMIT_NS,
		.progress = atomic_load(&wire_session_at(heft_mapped).header->progress)};
}

static int is_patient(struct patience *p)
{
	const uint64_t now = sys_clock_ns(MONOTONIC);
	const uint32_t progress = atomic_load(&wire_session_at(heft_mapped).header->progress);
	const uint64_t ns = now - p->looked;
	p->looked = now;
	p->silent_ns += ns < LONGEST_LOOK_NS ? ns : LONGEST_LOOK_NS;
	if (progress != p->progress) {
		p->progress = progress;
		p->silent_ns = 0;
	}
	return p->silent_ns < ANSWER_NS && now < p->limit;
}

/* Waits until it is another word than this one. Returns it. */
static uint64_t wait_while(struct wire_hold *hold, uint64_t word, struct patience *p)
{
	static const int64_t while_it_is[2] = {0, 50000000};
	uint64_t seen;
	while ((seen = atomic_load(&hold->word)) == word && is_patient(p))
		sys_futex(&hold->word, FUTEX_WAIT_SHARED, (uint32_t)word, while_it_is);
	return seen;
}

/* The file that says that the recorder holds programs, and which ones it knows; -1: it holds none. */
static int open_programs(void)
{
	char path[sizeof heft_settings.session_dir + sizeof WIRE_HOLDS_NAME + 1];
	char *end = stpcpy(path, heft_settings.session_dir);
	*end++ = '/';
	memcpy(end, WIRE_HOLDS_NAME, sizeof WIRE_HOLDS_NAME);
	return sys_open(path, O_RDONLY | O_CLOEXEC, 0);
}

static int may_ask(void)
{
	return heft_mapped && !heft_settings.follow_none && heft_settings.session_dir[0] &&
	       !heft_sandbox_has_filter() &&
	       !atomic_load_explicit(&sys_forbidden, memory_order_relaxed) &&
	       !atomic_load_explicit(&nobody_answers, memory_order_relaxed) &&
	       atomic_load(&wire_session_at(heft_mapped).header->state) == WIRE_ON;
}

static int is_served(void)
{
	int fd = open_programs();
	if (fd >= 0)
		sys_close(fd);
	return fd >= 0;
}

static struct wire_hold *find_place(uint64_t word, int32_t number)
{
	struct wire_header *h = wire_session_at(heft_mapped).header;
	for (unsigned i = 0; i < WIRE_HOLDS; i++) {
		uint64_t none = 0;
		if (!atomic_compare_exchange_strong(&h->holds[i].word, &none,
						    wire_hold_word(0, WIRE_HOLD_REFUSED)))
			continue;
		atomic_store(&h->holds[i].number, number);
		atomic_store(&h->holds[i].word, word);
		return &h->holds[i];
	}
	return NULL;
}

/* Others of this process may have all places: they give them back soon. */
static struct wire_hold *take_place(uint64_t word, int32_t number, struct patience *p)
{
	static uint32_t nobody_wakes;
	static const int64_t moment[2] = {0, 1000000};
	struct wire_hold *place;
	while (!(place = find_place(word, number)) && is_patient(p))
		sys_futex(&nobody_wakes, FUTEX_WAIT_SHARED, 0, moment);
	return place;
}

/* Asks, and waits for the answer. 0: there is none, and the place is given back. */
static uint64_t answer_to(int32_t who, enum wire_hold_state state, int32_t number,
			  struct wire_hold **place)
{
	const uint64_t asked = wire_hold_word(who, state);
	struct patience p = patience_begin();
	struct wire_hold *hold = *place = take_place(asked, number, &p);
	uint64_t seen = hold ? wait_while(hold, asked, &p) : 0;
	if (seen == asked) {
		atomic_store(&nobody_answers, 1);
		if (atomic_compare_exchange_strong(&hold->word, &seen, 0))
			seen = 0; /* else it has come just now */
	}
	return seen;
}

static struct wire_hold *hold(int32_t who, enum wire_hold_state state)
{
	struct wire_hold *hold;
	if (!is_served())
		return NULL;
	allow(PR_SET_PTRACER_ANY);
	uint64_t seen = answer_to(who, state, 0, &hold);
	if (seen == wire_hold_word(who, WIRE_HOLD_READY)) {
		allow((unsigned long)atomic_load(&hold->number));
		return hold;
	}
	if (seen)
		atomic_store(&hold->word, 0);
	allow(0);
	return NULL;
}

struct wire_hold *heft_hold_next(void)
{
	int pid = sys_getpid();
	return may_ask() && pid > 0 && sys_gettid() == pid ? hold(pid, WIRE_HOLD_ASKED) : NULL;
}

struct wire_hold *heft_hold_spawned(void)
{
	return may_ask() ? hold(sys_gettid(), WIRE_HOLD_SPAWNS) : NULL;
}

void heft_hold_made(struct wire_hold *hold)
{
	uint64_t ready = wire_hold_word(sys_gettid(), WIRE_HOLD_READY);
	atomic_compare_exchange_strong(&hold->word, &ready, 0);
	allow(0);
}

void heft_hold_failed(struct wire_hold *hold)
{
	const uint64_t word = wire_hold_word(sys_gettid(), WIRE_HOLD_FAILED);
	atomic_store(&hold->word, word);
	struct patience p = patience_begin();
	wait_while(hold, word, &p);
	allow(0);
}

/* ---- what kind of program it is */

static enum wire_program_kind known_kind(int programs, const struct stat *st)
{
	struct wire_program p;
	const uint64_t changed = (uint64_t)st->st_ctim.tv_sec * 1000000000ull +
				 (uint64_t)st->st_ctim.tv_nsec;
	if (sys_call4(SYS_pread64, programs, (long)&p, sizeof p,
		      (long)wire_program_place(st->st_dev, st->st_ino)) != sizeof p ||
	    p.device != st->st_dev || p.inode != st->st_ino || p.changed_ns != changed ||
	    p.kind_check != wire_program_check(&p, (uint32_t)(p.kind_check & 0xff)))
		return WIRE_PROGRAM_UNKNOWN;
	return (enum wire_program_kind)(p.kind_check & 0xff);
}

static enum wire_program_kind asked_kind(int fd)
{
	struct wire_hold *place;
	int32_t self = sys_gettid();
	uint64_t seen = answer_to(self, WIRE_HOLD_LOOK, fd, &place);
	enum wire_program_kind kind = WIRE_PROGRAM_UNKNOWN;
	if (seen == wire_hold_word(self, WIRE_HOLD_KNOWN))
		kind = (enum wire_program_kind)atomic_load(&place->number);
	if (seen)
		atomic_store(&place->word, 0);
	return kind;
}

enum heft_file_kind heft_ask_kind(const struct heft_file *f)
{
	struct stat st;
	enum wire_program_kind kind = WIRE_PROGRAM_UNKNOWN;
	int programs = may_ask() ? open_programs() : -1;
	if (programs < 0)
		return f->kind;
	if (!sys_fstat(f->fd, &st))
		kind = known_kind(programs, &st);
	sys_close(programs);
	if (kind == WIRE_PROGRAM_UNKNOWN)
		kind = asked_kind(f->fd);
	switch (kind) {
	case WIRE_PROGRAM_OWN_ALLOCATOR: return HEFT_FILE_OWN_ALLOCATOR;
	case WIRE_PROGRAM_FOREIGN: return HEFT_FILE_FOREIGN;
	case WIRE_PROGRAM_REFUSES: return HEFT_FILE_REFUSES;
	default: return f->kind;
	}
}
