/* The model into foreign files: one file a format, one table of them (exporters.c). */
#ifndef HEFT_EXPORT_EXPORT_H
#define HEFT_EXPORT_EXPORT_H

#include "profile/profile_delta.h"

#include <stdio.h>

struct view_recording; /* src/pages's */

struct export_options {
	/* For formats with one number a stack. With --at, the peak is that instant. */
	enum measure_id measure;
	bool raw; /* pprof: addresses and build ids instead of symbols */
	bool full; /* deep stacks too are whole; pprof: without drop_frames, so that readers show all */
	bool source;        /* html: with source lines */
	bool moment;        /* json: what is live is that of a moment with a name (--at peak) ... */
	uint64_t moment_ns; /* ... which was then */
	bool live_then; /* dhat, speedscope: what is live is of the moment of --at, not of the end */
	struct view_recording *recording; /* html: what its documents are made of */
	bool invert;                      /* folded, flamegraph: from the allocating function up */
	const char *name;  /* of the file, or NULL: .gz and .zst ask for compression (heaptrack) */
	const char *title; /* of graphs; NULL: the command */
	const char *focus, *ignore; /* what the profile was filtered with, or NULL */
};

struct exporter {
	const char *name;      /* of -f */
	const char *summary;   /* a few words for help */
	const char *extension; /* of the default file name, without the dot before it */
	bool binary;           /* not for a terminal */
	/* exporter_write() calls it. Writes to the stream, whose errors latch for the caller to check.
	 * 0 or a negative code. */
	int (*write)(FILE *out, const struct profile *p, const struct export_options *o,
		     struct heft_error *err);
	bool labels; /* keeps labels of sites; the others get stacks without (profile_drop_labels) */
	enum {
		EXPORT_MERGED, /* as they read: it has no addresses (Massif: of some call) */
		EXPORT_CALLS, /* merged, each with the addresses of one recorded stack (stacks.calls) */
		EXPORT_APART /* as they were recorded (chosen.apart) */
	} stacks;
	bool folds; /* the format has no form for deep stacks: they are folded for it */
};

extern const struct exporter exporters[]; /* ends with a NULL name */
const struct exporter *exporter_find(const char *name);

/* Writes to the stream, deep stacks folded (folded_profile.h) unless o->full. */
int exporter_write(const struct exporter *x, FILE *out, const struct profile *p,
		   const struct export_options *o, struct heft_error *err);

/* The difference of two snapshots as pprof, with `measure` as the type that viewers show first. */
int export_pprof_delta(FILE *out, const struct profile_delta *d, enum measure_id measure,
		       struct heft_error *err);

/* Whether export_to_path would refuse the path: the file exists and is not forced, or it is a terminal
 * and the format is binary. Ask before anything slow. */
int export_path_check(const struct exporter *x, const char *path, bool force,
		      struct heft_error *err);
/* Writes a file beside the path and renames it when it is whole. "-" is stdout; a pipe or a device is
 * written to directly. An existing file needs force. A failure leaves nothing behind. */
int export_to_path(const struct exporter *x, const char *path, bool force, const struct profile *p,
		   const struct export_options *o, struct heft_error *err);

#endif
