/* Inside src/import: a pprof profile (profile.proto) as it is read: its tables, their names in the model,
 * and the current sample. */
#ifndef HEFT_IMPORT_PPROF_FILE_H
#define HEFT_IMPORT_PPROF_FILE_H

#include "hosted/hash_index.h"
#include "hosted/vector.h"
#include "import/address_maps.h"
#include "import/import_source.h"
#include "import/protobuf_scan.h"

enum { PPROF_MAX_TYPES = 64, PPROF_MAX_LABELS = 256, PPROF_MAX_DEPTH = 1 << 16 };
/* A location of a sample takes a byte, and has a line for each function that was inlined there: so the frames of all
 * samples are at most so many. */
enum { PPROF_FRAMES_A_BYTE = 4, PPROF_FRAMES = 1 << 20 };

/* Labels of all samples together, in bytes as they are shown: a label is named by a byte or two. */
#define PPROF_LABEL_BYTES_A_BYTE 64
#define PPROF_LABEL_BYTES (UINT64_C(64) << 20)

struct pprof_string {
	uint32_t offset, length;
	const char *name, *plain; /* in the profile, and demangled there; NULL: not asked for yet */
};

struct pprof_function {
	uint64_t name, system_name, file;
};

struct pprof_line {
	uint64_t function;
	uint64_t line;
};

struct pprof_location {
	uint64_t mapping, address;
	uint32_t first_line, line_count;
	uint32_t first_frame, frame_count; /* in frame_ids */
	uint32_t module;
};

struct pprof_mapping {
	uint64_t start, limit, offset, file, build_id;
	struct address_range range;
};

/* Ids of the entries of a table, in its order. */
struct pprof_ids {
	VECTOR(uint64_t) list;
	struct hash_index index;
};

/* One sample */
struct pprof_sample {
	uint64_t ids[PPROF_MAX_DEPTH]; /* of its locations, innermost first */
	uint32_t id_count;
	int64_t values[PPROF_MAX_TYPES];
	uint32_t value_count;
	struct profile_label labels[PPROF_MAX_LABELS];
	uint32_t label_count;
	uint32_t via; /* PROFILE_VIA_UNKNOWN: not said */
};

struct pprof_file {
	struct profile *p;
	struct import_source *in;
	const uint8_t *data;
	size_t length;
	VECTOR(struct pprof_string) strings;
	VECTOR(struct pprof_function) functions;
	VECTOR(struct pprof_location) locations;
	VECTOR(struct pprof_line) lines;
	VECTOR(struct pprof_mapping) mappings;
	struct pprof_ids function_ids, location_ids, mapping_ids;
	struct address_maps maps;
	VECTOR(uint32_t) frame_ids;
	struct {
		uint64_t type, unit;
	} types[PPROF_MAX_TYPES], period_type;
	uint32_t type_count;
	int measure_of[PPROF_MAX_TYPES]; /* -1: none of heft's */
	int64_t time_ns, duration_ns, period;
	bool heft, vias_unknown;    /* made by heft; from a file that does not know `via` */
	struct pprof_sample sample; /* that is being read */
	uint64_t frames_of_samples; /* so far: a small file may ask for very many */
	uint64_t label_bytes;       /* and for long labels */
};

/* Whether a field of the top message has this number and wire type. */
bool pprof_is_top_field(const struct protobuf_field *field);
/* Fills the tables from f->data. */
int pprof_tables_read(struct pprof_file *f);
void pprof_tables_free(struct pprof_file *f);
/* The entry with this id; PROFILE_NONE: there is none. */
uint32_t pprof_find(const struct pprof_ids *ids, uint64_t id);
/* A string of the table, in the profile's names; NULL: no memory. One that is not there is "". */
const char *pprof_string_at(struct pprof_file *f, uint64_t index);
/* The same of a function, as people write it. */
const char *pprof_plain_at(struct pprof_file *f, uint64_t index);
bool pprof_string_is(const struct pprof_file *f, uint64_t index, const char *text);
/* Reads a message of plain numbers: values[i] becomes field i. */
int pprof_read_numbers(struct pprof_file *f, struct protobuf_scan s, uint64_t *values,
		       uint32_t count, const char *what);
/* HEFT_EFORMAT, with what was expected at this place. */
int pprof_bad(struct pprof_file *f, const uint8_t *at, const char *what);

/* Makes modules of the mappings, and frames (frame_ids) of the locations. */
int pprof_locations_load(struct pprof_file *f);

#endif
