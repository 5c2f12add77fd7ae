/* How the page's recordings are loaded: any file that heft reads, with the user's rules for frames.
 * For the verbs that show or write the page. */
#ifndef HEFT_CLI_VIEW_FILES_H
#define HEFT_CLI_VIEW_FILES_H

#include "pages/view_recording.h"

extern const struct view_loader cli_view_loader;

#endif
