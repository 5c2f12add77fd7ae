/* Messages of a verb that records. Standard error may be a terminal that was paused, or a pipe to a pager that nobody turns:
 * whoever writes to it waits. A recorder must not, because programs would wait for it, and would go on without it after a
 * second. So messages that nobody takes now are kept, in order, and written later: with the next one, or at the end.
 *
 * What is kept is bounded. What was left out for that is counted, and said at the end. */
#include "cli/cli.h"

#include "hosted/number_words.h"
#include "hosted/vector.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	KEPT_MOST = 64 << 10,
	PIECE = 512, /* who says that there is room has so much of it */
};

static struct {
	char *bytes;
	size_t used, size;
	unsigned lost;
} kept;

static bool has_room(int wait_ms)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	int ready = poll(&p, 1, wait_ms);
	return ready == 1 || (ready < 0 && wait_ms);
}

/* False: it cannot be written at all. */
static bool write_piece(void)
{
	size_t piece = kept.used < PIECE ? kept.used : PIECE;
	ssize_t n = write(STDERR_FILENO, kept.bytes, piece);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	kept.used -= (size_t)n;
	memmove(kept.bytes, kept.bytes + n, kept.used);
	return true;
}

static void drop(void)
{
	free(kept.bytes);
	kept.bytes = NULL;
	kept.used = kept.size = 0;
}

void cli_say_soon(const char *text)
{
	char *lines = cli_message(text);
	size_t length = lines ? strlen(lines) : 0;
	if (!lines || kept.used + length > KEPT_MOST ||
	    !array_reserve(kept.bytes, kept.used, kept.size, length))
		kept.lost++;
	else {
		memcpy(kept.bytes + kept.used, lines, length);
		kept.used += length;
	}
	free(lines);
	while (kept.used && has_room(0))
		if (!write_piece())
			drop();
}

void cli_say_kept(void)
{
	while (kept.used && has_room(-1) && write_piece())
		;
	drop();
	if (kept.lost)
		cli_error("%s could not be shown in time, because standard error took nothing",
			  words_many(kept.lost, "message", "messages").text);
	kept.lost = 0;
}
