/* Loads recordings for the page: any file that heft reads, with the user's rules for frames. */
#ifndef HEFT_CLI_VIEW_FILES_H
#define HEFT_CLI_VIEW_FILES_H

#include "pages/view_recording.h"

extern const struct view_loader cli_view_loader;

#endif
