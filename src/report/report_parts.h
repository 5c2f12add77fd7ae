/* Inside src/report: what several views print alike. */
#ifndef HEFT_REPORT_REPORT_PARTS_H
#define HEFT_REPORT_REPORT_PARTS_H

#include "report/report.h"

size_t report_width(const struct report_options *o);
bool report_is_selection(const struct report_options *o);

/* The bold first line of a view: the command, then ": what". */
void report_print_title(FILE *out, const struct profile *p, const struct report_options *o,
			const char *what);
/* "  only  ..." if something was selected. */
void report_print_selection(FILE *out, const struct report_options *o);
/* "  window  ..." or "  at  ..." if it is not the whole run. */
void report_print_span(FILE *out, const struct profile *p, const struct report_options *o);
/* For a window sorted by growth: the sites that shrank in it, which that order leaves out. */
void report_print_shrunk(FILE *out, const struct profile *p, const struct report_options *o);
/* "  - text", or "  ! text" for a warning, in as many lines as it takes. */
void report_print_note(FILE *out, const struct report_options *o, bool warning, const char *text);
/* A sentence from column `indent`, where the cursor is, in as many lines as it takes, and a newline. */
__attribute__((format(printf, 4, 5))) void
report_print_prose(FILE *out, const struct report_options *o, size_t indent, const char *fmt, ...);
/* The profile's warnings. report_print_notes has its other notes. */
void report_print_warnings(FILE *out, const struct profile *p, const struct report_options *o);
/* "OPTION VALUE " for a command to be copied; nothing if the value is NULL. */
void report_print_option(FILE *out, const char *option, const char *value);
/* "Next: heft report OPTION FILE    (why)". */
void report_print_next(FILE *out, const struct report_options *o, const char *option,
		       const char *why);

/* A site's stack, from column `indent`, where the cursor is: its first user frame, what that calls, a
 * few callers; the whole stack with o->full. `callers` (site_callers.h) follows the first user frame;
 * it may be NULL. */
int report_print_stack(FILE *out, const struct profile *p, const struct profile_site *s,
		       const char *callers, const struct report_options *o, size_t indent);
/* What a site's first user frame calls of the runtime; PROFILE_NONE: it allocates itself. */
uint32_t report_called_node(const struct profile *p, const struct profile_site *s);
/* The first user frame, its callers as above, and what it calls, in one line of at most `max`
 * columns, without a newline. */
void report_print_site(FILE *out, const struct profile *p, const struct profile_site *s,
		       const char *callers, size_t max);
/* " < callers" in at most `max` columns; returns those used. */
size_t report_print_callers(FILE *out, const char *callers, size_t max);
/* The same with the allocation function, where there is space for it. */
void report_print_site_via(FILE *out, const struct profile *p, const struct profile_site *s,
			   const char *callers, size_t max);

/* In a sampled profile: the sites that hold most of what is live, by when that was made. */
int report_print_ages(FILE *out, const struct profile *p, const struct report_options *o);

/* What the program said (heft.h): marks, regions, stages, events, pools. Nothing if it said nothing. */
int report_print_remarks(FILE *out, const struct profile *p, const struct report_options *o);

/* The processes, if there are several. */
int report_print_processes(FILE *out, const struct profile *p, const struct report_options *o);

/* One finding; `number` counts from 1, `callers` may be NULL. */
int report_print_finding(FILE *out, const struct profile *p, const struct finding *f,
			 uint32_t number, const char *callers, const struct report_options *o);
/* The findings; nothing if nobody looked for them. */
int report_print_findings(FILE *out, const struct profile *p, const struct report_options *o);
/* What to know about the profile itself: notes of the findings, and those of the profile that warn of nothing.
 * Nothing if there are none. */
void report_print_notes(FILE *out, const struct profile *p, const struct report_options *o);

#endif
