/* heft run --count */
#ifndef HEFT_CLI_COUNT_COMMAND_H
#define HEFT_CLI_COUNT_COMMAND_H

#include "cli/record_verb.h"

/* Runs the command and prints what it has counted. Returns the status to end with. */
int count_command(const struct record_verb *r, int argc, char **argv);
/* run.c: prints why the command was not run. The status to end with. */
int run_refused(const struct heft_error *err, int rc);

#endif
