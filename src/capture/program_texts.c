/* Names of the program. A table in private memory has each of them once; it only grows. The outside learns a name from an
 * entry of the module log, written before the first record that has its number. A forked child has the table, but a log
 * of its own: names are written there again. */
#include "capture/own_memory.h"
#include "capture/program_texts.h"

#include <string.h>
#include <sys/mman.h>

enum { NAMES = 4000, SLOTS = WIRE_NAMES, LENGTH_MOST = 255, MEMORY = 1 << 20 };

struct name {
	uint64_t hash;
	_Atomic uint64_t logged_in; /* the session: when it started. 0: none */
	uint32_t length;
	char text[];
};

struct names {
	_Atomic(struct name *) slots[SLOTS];
	_Atomic uint32_t count, used; /* bytes of memory */
	_Alignas(8) char memory[MEMORY];
};

static _Atomic(struct names *) names;

static struct names *table(void)
{
	struct names *t = atomic_load(&names);
	if (t)
		return t;
	struct names *fresh = sys_mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (!fresh)
		return NULL;
	if (atomic_compare_exchange_strong(&names, &t, fresh)) {
		heft_list_own(heft_own_header(), fresh, sizeof *fresh);
		return fresh;
	}
	sys_munmap(fresh, sizeof *fresh);
	return t;
}

static struct name *new_name(struct names *t, uint64_t hash, const char *text, uint32_t length)
{
	const uint32_t bytes = (uint32_t)(sizeof(struct name) + length + 1 + 7) & ~7u;
	if (atomic_fetch_add(&t->count, 1) >= NAMES) {
		atomic_fetch_sub(&t->count, 1);
		return NULL;
	}
	const uint32_t at = atomic_fetch_add(&t->used, bytes);
	if (at > MEMORY - bytes) {
		atomic_fetch_sub(&t->used, bytes);
		return NULL;
	}
	struct name *n = (struct name *)(t->memory + at);
	n->hash = hash;
	n->length = length;
	memcpy(n->text, text, length);
	return n;
}

static void log_name(struct name *n, uint32_t number)
{
	struct heft_process *p = heft_process;
	struct wire_header *h = heft_own_header();
	if (!h || atomic_load(&n->logged_in) == h->start_tsc)
		return;
	const uint32_t bytes = (uint32_t)(sizeof(struct wire_module) + n->length + 7) & ~7u;
	struct wire_module *w = heft_log_begin(&p->session, bytes);
	if (!w)
		return;
	w->start = number;
	w->path_bytes = (uint16_t)n->length;
	w->kind = WIRE_LOG_NAME;
	memcpy(w->data, n->text, n->length);
	heft_log_end(w);
	atomic_store(&n->logged_in, h->start_tsc);
}

uint32_t heft_text_number(const char *name)
{
	struct names *t = name && *name ? table() : NULL;
	if (!t)
		return 0;
	const uint32_t length = (uint32_t)strnlen(name, LENGTH_MOST);
	uint64_t hash = 1;
	for (uint32_t i = 0; i < length; i++)
		hash = heft_mix(hash, (unsigned char)name[i]);
	for (uint32_t i = 0, at = (uint32_t)(hash >> 40) % SLOTS; i < SLOTS;
	     i++, at = (at + 1) % SLOTS) {
		struct name *n = atomic_load_explicit(&t->slots[at], memory_order_acquire);
		struct name *fresh = NULL;
		if (!n) {
			fresh = new_name(t, hash, name, length);
			if (!fresh)
				return 0;
			if (atomic_compare_exchange_strong(&t->slots[at], &n, fresh))
				n = fresh;
			else
				atomic_fetch_sub(&t->count, 1);
		}
		if (n->hash != hash || n->length != length || memcmp(n->text, name, length))
			continue;
		log_name(n, at + 1);
		return at + 1;
	}
	return 0;
}

const char *heft_text_of(uint32_t number)
{
	const struct names *t = atomic_load(&names);
	const struct name *n = t && number && number <= SLOTS ? atomic_load(&t->slots[number - 1])
							      : NULL;
	return n ? n->text : "";
}

void heft_text_put(struct heft_text *t, const char *text)
{
	while (*text && t->at < t->end)
		*t->at++ = *text++;
}

/* With commas, as all numbers of heft have them. */
void heft_text_number_put(struct heft_text *t, int64_t n)
{
	char digits[32];
	unsigned at = sizeof digits, count = 0;
	uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
	digits[--at] = 0;
	do {
		if (count && count % 3 == 0)
			digits[--at] = ',';
		digits[--at] = (char)('0' + left % 10);
		count++;
	} while (left /= 10);
	if (n < 0)
		digits[--at] = '-';
	heft_text_put(t, digits + at);
}
