/* What heft run, an agent's user or a parent process has set in the environment: settings.c. */
#ifndef HEFT_CAPTURE_SETTINGS_H
#define HEFT_CAPTURE_SETTINGS_H

#include "capture/inside.h"

struct heft_settings {
	char session_dir[512]; /* where this process's file goes; "": nowhere */
	/* The same as a descriptor, for a program that does not see it, and which folder it is; 0: none */
	int32_t session_fd;
	uint64_t session_device, session_inode;
	char preload_path
		[512]; /* our entry of LD_PRELOAD; "": programs that are executed are not followed */
	char exe[4096];
	char mode_variable[48]; /* "HEFT_SAMPLE=512k", "HEFT_MODE=count"; "": plain exact */
	uint64_t sample_bytes;  /* the same as a number; 0: exact */
	uint8_t sample_off, sample_auto;
	uint8_t counts;      /* HEFT_MODE=count: nothing is recorded */
	uint8_t mempools;    /* HEFT_MODE=mempools: client requests are recorded */
	uint8_t follow_none; /* --follow=none: children are not recorded */
};
extern HIDDEN struct heft_settings heft_settings;

HIDDEN void heft_settings_read(void); /* once; more calls do nothing */
/* our_variables.c: finds our own entry in the value of LD_PRELOAD; its length, or 0. */
HIDDEN size_t heft_own_entry(const char *list, const char **at);
/* Whether "NAME=value" is this variable. */
HIDDEN int heft_is_variable(const char *entry, const char *name);
/* Takes heft's variables out of an environment: --follow=none. */
HIDDEN void heft_settings_remove(char **env);

#endif
