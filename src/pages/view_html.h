/* A report in one file: the page with its documents inside, which opens without heft and without a
 * network. */
#ifndef HEFT_PAGES_VIEW_HTML_H
#define HEFT_PAGES_VIEW_HTML_H

#include "pages/view_recording.h"

#include <stdio.h>

enum { VIEW_HTML_BYTES = 1000000 }; /* never larger: it is to be mailed and attached */

/* source: also the text of source files. The recording's id must be "1". */
int view_html(FILE *out, struct view_recording *r, bool source, struct heft_error *err);

#endif
