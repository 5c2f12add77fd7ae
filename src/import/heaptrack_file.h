/* Inside src/import: what heaptrack's files hold. They are text, one letter a line and lower-case
 * hexadecimal numbers: the interpreted one that heaptrack_print reads, and the raw one
 * (heaptrack --raw) that has addresses and mappings where the other has names.
 *
 *   v 10400 3          version       s 4 main           string, from 1
 *   x 4 /a/b           raw: program  i 55aa 1 2 3 c     address, module, function, file, line ...
 *   X ./b              command       t 1 0              frame (or raw: address) under trace, from 1
 *   I 1000 5e29        page size     a 64 3             a size at a trace, from 0
 *   m 1 x 55aa 0 7c8   raw: module   + 0    - 0         one of these is made, is freed
 *   c ef               time, ms      + 64 3 55bb  - 55bb     the same in a raw file
 *   R 836              resident pages
 *
 * heaptrack counts a realloc as a free and an allocation, and so does heft here. An interpreted file
 * does not record what single blocks did; a raw one has their addresses, and so mean lifetimes, as
 * exact as its clock of 10 ms. */
#ifndef HEFT_IMPORT_HEAPTRACK_FILE_H
#define HEFT_IMPORT_HEAPTRACK_FILE_H

#include "hosted/vector.h"
#include "import/address_maps.h"
#include "import/heaptrack_blocks.h"
#include "import/heaptrack_sums.h"
#include "import/import_source.h"

/* An instruction has a frame for each function that was inlined there, and any number of traces may name it: the
 * frames of all traces are at most so many. */
enum { HEAPTRACK_FRAMES_A_BYTE = 4, HEAPTRACK_FRAMES = 1 << 20 };

struct heaptrack_ip {
	uint64_t address;
	uint32_t module;             /* string */
	uint32_t first, frame_count; /* in words: function, file, line of each, innermost first */
};

struct heaptrack_size {
	uint64_t size;
	uint32_t trace;
};

struct heaptrack_trace {
	uint32_t parent; /* 0: none */
	uint32_t ip;
};

struct heaptrack_file {
	struct profile *p;
	struct import_source *in;
	VECTOR(const char *) strings; /* names of the profile */
	const char **plain;           /* the same demangled, as far as they were needed */
	uint64_t frames_of_traces;    /* so far: a small file may ask for very many */
	VECTOR(struct heaptrack_ip) ips;
	VECTOR(uint32_t) words;
	/* An interpreted file has traces, which are numbered from 1 in the file; a raw file has nodes instead. */
	VECTOR(struct heaptrack_trace) traces;
	VECTOR(struct address_node) nodes;
	VECTOR(struct heaptrack_size) sizes;
	struct heaptrack_sums sums; /* its traces are those of the file, and [0] is none */
	struct address_maps maps;
	struct heaptrack_blocks blocks;
	uint64_t last_made; /* index or address of the last +, if nothing came after it */
	uint64_t unknown_frees, events, page_bytes, peak_pages;
	uint64_t version;
	const char *exe;
	bool raw, attached;
	bool heft;           /* made by heft: its stacks begin at the caller already */
	uint8_t digits[256]; /* the values of lower-case digits, 16 for everything else */
};

/* Reads the whole file: `f` has p and in, and is empty otherwise. The caller frees what is in it. */
int heaptrack_lines_read(struct heaptrack_file *f);

#endif
