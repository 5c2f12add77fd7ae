/* What is mapped near a module whose functions are hooked: for each, a trampoline to the hook and a copy of the
 * instructions that the jump at its entry overwrites. It begins with a header, so that a later heft finds and removes
 * what one that was killed has left. Here the bytes are made and read; others map, write and unmap them. */
#ifndef HEFT_ATTACH_NEAR_PAGE_H
#define HEFT_ATTACH_NEAR_PAGE_H

#include "attach/relocate.h"

enum {
	NEAR_PAGE_VERSION = 2,
	NEAR_PAGE_ENTRIES = 256,
	NEAR_PAGE_OWN = 16,
	NEAR_PAGE_NAME = 40,
	NEAR_PAGE_SPARE = 64
};

/* The layout of header and entries is read by other versions of heft: change it with the version. */
struct near_entry {
	uint64_t at; /* the function's */
	uint32_t trampoline, slot,
		copy; /* offsets in the page; the slots have the hook's address and argument */
	uint8_t displaced, copy_bytes; /* as in struct relocated */
	uint8_t steps, unused;
	uint8_t from[RELOCATE_STEPS], to[RELOCATE_STEPS];
	uint8_t old[RELOCATE_MOST]; /* the first `displaced` bytes of the function before */
	char name[NEAR_PAGE_NAME];  /* of the function, for people; cut if it is longer */
};

struct near_header {
	uint8_t magic[16];
	uint32_t version;
	uint32_t bytes; /* of all, whole pages */
	uint64_t at;    /* where it is mapped */
	uint32_t entry_bytes, count;
	uint64_t own[NEAR_PAGE_OWN]; /* for whoever attaches: where the blob is, and so on */
	struct near_entry entries[];
};

struct near_page {
	uint8_t *bytes; /* owned */
	size_t size;
	uint64_t at;
	unsigned most; /* entries that fit */
	size_t used;   /* the next copy goes here */
};

/* What a page for so many functions takes; 0: too many. */
size_t near_page_bytes(unsigned functions);
/* The page will be mapped at `at` and has space for so many functions. */
int near_page_init(struct near_page *p, uint64_t at, unsigned functions, struct heft_error *err);
void near_page_fini(struct near_page *p);
/* Adds a function: the arguments are those of relocate(), `hook` is where calls of it go, and `argument` is what that
 * gets as its sixth. Returns its number. A function that is there already (another name of it) is not added
 * again. */
int near_page_add(struct near_page *p, const char *name, const uint8_t *code, size_t n, uint64_t at,
		  uint64_t function_bytes, uint64_t hook, uint64_t argument,
		  struct heft_error *err);
/* The bytes change when functions are added. */
struct near_header *near_page_header(const struct near_page *p);
const struct near_entry *near_page_entry(const struct near_page *p, unsigned entry);
unsigned near_page_count(const struct near_page *p);

/* Run-time addresses: where the jump at the entry leads, and what stands for the function as it was. */
uint64_t near_page_trampoline(const struct near_page *p, unsigned entry);
uint64_t near_page_copy(const struct near_page *p, unsigned entry);
/* NEAR_PAGE_SPARE bytes at its end, which whoever attaches may write code to. */
uint64_t near_page_spare(const struct near_page *p);
/* What is written at the function's entry, over the first JUMP_BYTES of entry->old. */
void near_page_jump(const struct near_page *p, unsigned entry, uint8_t jump[JUMP_BYTES]);

/* Where a thread goes on that is stopped in displaced bytes when the jump is written; 0: its pc is in none. */
uint64_t near_page_pc(const struct near_page *p, uint64_t pc);
/* Where a thread goes on that is stopped in this page when the functions are as before again; 0: not known. */
uint64_t near_page_back(const struct near_page *p, uint64_t pc);

/* Whether bytes at the start of a mapping look like one, of whatever version. */
bool near_page_is(const uint8_t *head, size_t bytes);
/* Reads one that was found in a program, mapped at `at`. HEFT_EREFUSED: of another version; HEFT_EFORMAT: damaged. */
int near_page_load(struct near_page *p, const uint8_t *bytes, size_t size, uint64_t at,
		   struct heft_error *err);

#endif
