/* What heft view answers: the page, its documents, files to take away, and news of recordings that
 * grow. */
#ifndef HEFT_PAGES_ROUTES_VIEW_H
#define HEFT_PAGES_ROUTES_VIEW_H

#include "http/http.h"
#include "pages/view_recording.h"

enum { ROUTES_VIEW = 8 }; /* and a last one that ends them */

struct routes_view {
	struct view_recording *const *recordings; /* in the order of their ids, "1" first */
	uint32_t count;
	struct http_route routes[ROUTES_VIEW + 1];
};

/* v must live as long as the server, the recordings too. */
void routes_view_init(struct routes_view *v, struct view_recording *const *recordings,
		      uint32_t count);
/* For http_options.headers: what the page may do, and that nothing of it is kept or told. */
const char *routes_view_headers(void);

#endif
