/* Tokens: makes them, reads files of them, and finds the one that a client sent.
 *
 * A file of tokens has lines "TOKEN", "TOKEN all" or "TOKEN uid=1000": what stands behind the token says
 * whose processes its holder sees. A line that is not understood is refused: skipping it could give somebody
 * more rights than was meant. A message never repeats what a line says, because it may be a secret. */
#include "http/http_parts.h"

#include "hosted/number_parse.h"
#include "hosted/vector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_TOKEN = 16, LONGEST_TOKEN = 256, MOST_TOKENS = 10000 };

void http_make_token(char token[33])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[16];
	size_t have = 0;
	while (have < sizeof bytes) {
		ssize_t n = getrandom(bytes + have, sizeof bytes - have, 0);
		if (n > 0)
			have += (size_t)n;
		else if (n < 0 && errno != EINTR)
			abort(); /* Linux has it since 3.17; a token must never be guessable */
	}
	for (size_t i = 0; i < sizeof bytes; i++) {
		token[2 * i] = digits[bytes[i] >> 4];
		token[2 * i + 1] = digits[bytes[i] & 15];
	}
	token[32] = 0;
}

/* ---- which one was sent */

bool http_token_equal(const char *token, const char *given)
{
	size_t length = strlen(token), given_length = strlen(given);
	volatile unsigned char differs = length != given_length || !length;
	for (size_t i = 0; i < length; i++) {
		const char *other = i < given_length ? given + i : token;
		differs = (unsigned char)(differs | (token[i] ^ *other));
	}
	return !differs;
}

bool http_tokens_find(const struct http_tokens *t, const char *given, struct http_viewer *viewer)
{
	const struct http_token *found = NULL;
	for (size_t i = 0; i < t->count; i++) /* all of them: the time does not tell which */
		if (http_token_equal(t->items[i].text, given))
			found = &t->items[i];
	if (found)
		*viewer = (struct http_viewer){found->sees, found->uid, true};
	return found != NULL;
}

/* ---- a file of them */

static int check_file(const char *path, const struct stat *st, struct heft_error *err)
{
	if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
		return heft_fail(err, HEFT_EREFUSED, "%s is not a file", path);
	if (S_ISREG(st->st_mode) && st->st_mode & (S_IRWXG | S_IRWXO))
		return heft_fail(err, HEFT_EREFUSED,
				 "the token in %s can be read by others\nchmod 600 %s", path, path);
	return 0;
}

/* What stands behind the token: nothing, "all" or "uid=UID". */
static bool parse_rights(const char *text, struct http_token *to)
{
	uint64_t uid;
	to->sees = HTTP_SEES_ALL;
	if (!*text || strcmp(text, "all") == 0)
		return true;
	if (strncmp(text, "uid=", 4) != 0 || number_parse(text + 4, UINT32_MAX - 1, &uid) < 0)
		return false;
	to->sees = HTTP_SEES_UID;
	to->uid = (uint32_t)uid;
	return true;
}

static int parse_line(struct http_tokens *t, char *line, size_t number, const char *path,
		      struct heft_error *err)
{
	size_t length = strcspn(line, " \t");
	char *rights = line + length + strspn(line + length, " \t");
	struct http_token new = {0};
	line[length] = 0;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			return heft_fail(err, HEFT_EREFUSED,
					 "the token in line %zu of %s has control characters",
					 number, path);
	if (length < LEAST_TOKEN)
		return heft_fail(err, HEFT_EREFUSED,
				 "the token in line %zu of %s is shorter than %d characters\n"
				 "(umask 077; openssl rand -hex 16 > %s) makes a good one",
				 number, path, LEAST_TOKEN, path);
	if (length > LONGEST_TOKEN)
		return heft_fail(err, HEFT_EREFUSED, "the token in line %zu of %s is too long",
				 number, path);
	if (!parse_rights(rights, &new))
		return heft_fail(err, HEFT_EREFUSED,
				 "line %zu of %s is not understood\n"
				 "a line is a token, then \"all\", \"uid=1000\" or nothing",
				 number, path);
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->items[i].text, line) == 0)
			return heft_fail(err, HEFT_EREFUSED,
					 "line %zu of %s has the token of another line", number,
					 path);
	if (t->count == MOST_TOKENS)
		return heft_fail(err, HEFT_EREFUSED, "%s has more than %d tokens", path,
				 MOST_TOKENS);
	if (!(new.text = strdup(line)) || !vector_push(t, new)) {
		free(new.text);
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for the tokens");
	}
	return 0;
}

static int parse_lines(struct http_tokens *t, FILE *in, const char *path, struct heft_error *err)
{
	char *line = NULL;
	size_t size = 0, number = 0;
	int rc = 0;
	for (ssize_t n; rc == 0 && (n = getline(&line, &size, in)) >= 0;) {
		number++;
		if (memchr(line, 0, (size_t)n)) {
			rc = heft_fail(err, HEFT_EREFUSED, "line %zu of %s is not text", number,
				       path);
			break;
		}
		while (n && strchr(" \t\r\n", line[n - 1]))
			line[--n] = 0;
		char *text = line + strspn(line, " \t");
		if (*text && *text != '#')
			rc = parse_line(t, text, number, path, err);
	}
	free(line);
	if (rc == 0 && ferror(in))
		return heft_fail_errno(err, "cannot read the token file %s", path);
	if (rc == 0 && !t->count)
		return heft_fail(err, HEFT_EREFUSED,
				 "there is no token in %s\n"
				 "(umask 077; openssl rand -hex 16 > %s) makes one",
				 path, path);
	return rc;
}

int http_tokens_read(struct http_tokens *t, const char *path, struct heft_error *err)
{
	struct stat st;
	*t = (struct http_tokens){0};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0) {
		int rc = heft_fail_errno(err, "cannot read the token file %s", path);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	int rc = check_file(path, &st, err);
	FILE *in = rc == 0 ? fdopen(fd, "r") : NULL;
	if (!in) {
		close(fd);
		return rc ? rc : heft_fail(err, HEFT_ENOMEM, "not enough memory for the tokens");
	}
	rc = parse_lines(t, in, path, err);
	fclose(in);
	if (rc < 0)
		http_tokens_fini(t);
	return rc;
}

void http_tokens_fini(struct http_tokens *t)
{
	for (size_t i = 0; i < t->count; i++) {
		explicit_bzero(t->items[i].text, strlen(t->items[i].text));
		free(t->items[i].text);
	}
	vector_free(t);
}
