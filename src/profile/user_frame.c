/* The rules behind "first user frame". A report that says "std::string::_M_create allocates 80 %"
 * helps nobody: people look for the innermost line they can change.
 *
 * Most patterns begin with literal text. A trie holds each rule at the end of its literal text, so a
 * name is compared with all rules at once, byte by byte, and usually leaves the trie after two or three
 * bytes. Wildcards are tried only at the nodes that it passed: hundreds of rules cost a large profile no
 * more than a few. Patterns that begin with a wildcard are at the root and are tried for every name.
 *
 * Rules are numbered in order, the built-in ones first. The highest number that matches decides,
 * whether it is about the module, the function or the file. So a user's file can un-fold what is built
 * in, and fold something else.
 *
 * Names and rule files are hostile: nothing recurses, lengths are bounded, and a glob is matched in
 * time proportional to pattern times name. */
#include "profile/user_frame.h"

#include "hosted/vector.h"
#include "profile/wrapper_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char user_frame_rules_text[]; /* user_frame.rules, made into C by meson.build */
extern const size_t user_frame_rules_text_size;

enum { LARGEST_FILE = 1 << 20, LONGEST_LINE = 1000, NO_RULE = -1 };

/* What a pattern is compared with. */
enum subject { MODULE_NAME, MODULE_PATH, FUNCTION, FILE_NAME, FILE_PATH, SUBJECTS };

struct rule {
	char *rest;   /* after the literal start: "" is the end of the name, "*" anything */
	int32_t next; /* rule at the same trie node */
	bool wrapper; /* the name may go on with arguments or a suffix */
	enum frame_fold says;
};

struct trie_node {
	int32_t child, sibling; /* 0: none; the root is nobody's child */
	int32_t rules;          /* NO_RULE: none */
	unsigned char byte;
};

struct trie {
	struct trie_node *nodes;
	uint32_t count, capacity;
	int32_t start[256]; /* children of the root, by byte */
};

struct frame_rules {
	struct trie tries[SUBJECTS];
	struct rule *rules;
	uint32_t count, capacity;
	uint32_t built_in_count;
};

/* ---- matching */

/* The first place from `text` on where what follows a star can begin; NULL: there is none. Names have thousands of
 * letters in C++, so they are not looked at one by one. */
static const char *first_place(const char *star, const char *text)
{
	if (*star == '\\' && star[1])
		return strchr(text, star[1]);
	return *star == '*' || *star == '?' ? text : strchr(text, *star);
}

static bool glob_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL;
	for (;;) {
		if (*pattern == '*') {
			star = ++pattern;
			if (!*star)
				return true;
			text = retry = first_place(star, text);
			if (!text)
				return false;
			continue;
		}
		bool escaped = *pattern == '\\' && pattern[1];
		const char *p = pattern + escaped;
		if (*text && *p && (*p == *text || (*p == '?' && !escaped))) {
			pattern = p + 1;
			text++;
			continue;
		}
		if (!*text && !*p)
			return true;
		if (!star || !*retry)
			return false;
		pattern = star;
		text = retry = first_place(star, retry + 1);
		if (!text)
			return false;
	}
}

static bool rule_matches(const struct rule *r, const char *text)
{
	if (r->wrapper)
		return !*text || *text == '(' || *text == '.' || *text == '@';
	if (!r->rest[0])
		return !*text;
	return (r->rest[0] == '*' && !r->rest[1]) || glob_matches(r->rest, text);
}

/* The highest rule that matches, if it is above `best`. */
static int32_t decide(const struct frame_rules *r, enum subject subject, const char *text,
		      int32_t best)
{
	const struct trie *t = &r->tries[subject];
	if (!t->count)
		return best;
	for (int32_t node = 0;;) {
		for (int32_t i = t->nodes[node].rules; i > best; i = r->rules[i].next)
			if (rule_matches(&r->rules[i], text)) {
				best = i; /* lists are highest first */
				break;
			}
		unsigned char byte = (unsigned char)*text;
		if (!byte)
			return best;
		int32_t child = node ? t->nodes[node].child : t->start[byte];
		while (child && t->nodes[child].byte != byte)
			child = t->nodes[child].sibling;
		if (!child)
			return best;
		node = child;
		text++;
	}
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int32_t decide_module(const struct frame_rules *r, const char *path)
{
	int32_t best = decide(r, MODULE_NAME, name_of(path), NO_RULE);
	return decide(r, MODULE_PATH, path, best);
}

static int32_t decide_code(const struct frame_rules *r, const char *function, const char *file,
			   int32_t best)
{
	if (function)
		best = decide(r, FUNCTION, function, best);
	if (file) {
		if (r->tries[FILE_NAME].count)
			best = decide(r, FILE_NAME, name_of(file), best);
		best = decide(r, FILE_PATH, file, best);
	}
	return best;
}

static enum frame_fold said_by(const struct frame_rules *r, int32_t rule)
{
	return rule == NO_RULE ? FRAME_NOT_SAID : r->rules[rule].says;
}

enum frame_fold frame_rules_decide(const struct frame_rules *r, const char *module,
				   const char *function, const char *file)
{
	int32_t best = module ? decide_module(r, module) : NO_RULE;
	return said_by(r, decide_code(r, function, file, best));
}

bool frame_rules_fold(const struct frame_rules *r, const char *module, const char *function,
		      const char *file)
{
	enum frame_fold fold = frame_rules_decide(r, module, function, file);
	return fold == FRAME_FOLDED || fold == FRAME_PLUMBING;
}

static void set_frame(struct profile_frame *f, enum frame_fold fold)
{
	f->user = fold == FRAME_KEPT || fold == FRAME_NOT_SAID;
	f->kept = fold == FRAME_KEPT;
	f->plumbing = fold == FRAME_PLUMBING;
	f->wrapper = false;
}

void frame_rules_apply(const struct frame_rules *r, struct profile *p)
{
	/* The built-in rules decided when the frames were made. */
	if (r->count == r->built_in_count)
		return;
	/* Neighbouring frames are often of one module, whose answer is kept. */
	uint32_t known = PROFILE_NONE;
	int32_t of_known = NO_RULE;
	for (uint32_t i = 0; i < p->stacks.module_count; i++)
		p->stacks.modules[i].runtime =
			said_by(r, decide_module(r, p->stacks.modules[i].path)) == FRAME_FOLDED;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++) {
		struct profile_frame *f = &p->stacks.frames[i];
		if (f->module != known) {
			known = f->module;
			of_known = known < p->stacks.module_count
					   ? decide_module(r, p->stacks.modules[known].path)
					   : NO_RULE;
		}
		set_frame(f, said_by(r, decide_code(r, f->function, f->file, of_known)));
	}
	user_frame_find_machinery(p);
}

/* ---- what only the whole profile shows */

static bool is_python_code(const struct profile_frame *f)
{
	return f->module == PROFILE_NONE && strncmp(f->function, "py::", 4) == 0;
}

/* Node's own library is JavaScript, too. */
static bool is_javascript_code(const struct profile_frame *f)
{
	return f->module == PROFILE_NONE && strncmp(f->function, "JS:", 3) == 0;
}

static bool is_node_module(const char *path)
{
	const char *name = name_of(path);
	return strcmp(name, "node") == 0 || strcmp(name, "nodejs") == 0 ||
	       strncmp(name, "libnode.so", 10) == 0;
}

/* A JVM says "type package.Class.method(types)" (-XX:+DumpPerfMapAtExit). Its other code has other names. */
static bool is_java_code(const struct profile_frame *f)
{
	size_t length = strlen(f->function);
	return f->module == PROFILE_NONE && length && f->function[length - 1] == ')' &&
	       strchr(f->function, '.') && strchr(f->function, ' ') && !is_javascript_code(f) &&
	       !is_python_code(f);
}

static bool is_java_module(const char *path)
{
	return strcmp(name_of(path), "libjvm.so") == 0 || strstr(path, "/jvm/");
}

/* The interpreter, and extension modules that are installed and not the user's own. */
static bool is_python_module(const char *path)
{
	const char *name = name_of(path);
	if (strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0)
		return true;
	return strstr(name, ".so") &&
	       (strstr(path, "/lib-dynload/") || strstr(path, "/site-packages/") ||
		strstr(path, "/dist-packages/"));
}

struct interpreter {
	bool (*is_code)(const struct profile_frame *f);
	bool (*is_module)(const char *path);
};
static const struct interpreter interpreters[] = {
	{is_python_code, is_python_module},
	{is_javascript_code, is_node_module},
	{is_java_code, is_java_module},
};

/* Where functions of an interpreted language have frames, these are the user's code, and the interpreter is
 * plumbing. */
static void fold_interpreter(struct profile *p, const struct interpreter *by)
{
	bool any = false;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		if (by->is_code(&p->stacks.frames[i]) && p->stacks.frames[i].user)
			any = p->stacks.frames[i].kept = true;
	bool *inside = any ? calloc((size_t)p->stacks.module_count + 1, sizeof *inside) : NULL;
	if (!inside)
		return;
	for (uint32_t i = 0; i < p->stacks.module_count; i++)
		inside[i] = by->is_module(p->stacks.modules[i].path);
	for (uint32_t i = 0; i < p->stacks.frame_count; i++) {
		struct profile_frame *f = &p->stacks.frames[i];
		if (f->module < p->stacks.module_count && inside[f->module] && f->user && !f->kept)
			set_frame(f, FRAME_PLUMBING);
	}
	free(inside);
}

void user_frame_find_machinery(struct profile *p)
{
	if (p->stacks.lender)
		return;
	for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++)
		fold_interpreter(p, &interpreters[i]);
	wrapper_frames_find(p);
	profile_find_user_nodes(p);
}

/* ---- building */

static int32_t add_node(struct trie *t, unsigned char byte)
{
	if (!array_reserve(t->nodes, t->count, t->capacity, 1))
		return HEFT_ENOMEM;
	t->nodes[t->count] = (struct trie_node){.rules = NO_RULE, .byte = byte};
	return (int32_t)t->count++;
}

/* The node below `at` for this byte, made if it is not there; negative: no memory. */
static int32_t child_of(struct trie *t, int32_t at, unsigned char byte)
{
	int32_t child = at ? t->nodes[at].child : t->start[byte];
	while (child && t->nodes[child].byte != byte)
		child = t->nodes[child].sibling;
	if (child)
		return child;
	child = add_node(t, byte);
	if (child < 0)
		return child;
	if (at) {
		t->nodes[child].sibling = t->nodes[at].child;
		t->nodes[at].child = child;
	} else {
		t->start[byte] = child;
	}
	return child;
}

static int add_rule(struct frame_rules *r, enum subject subject, const char *pattern, bool wrapper,
		    enum frame_fold says)
{
	struct trie *t = &r->tries[subject];
	if (!t->count && add_node(t, 0) < 0)
		return HEFT_ENOMEM;
	if (!array_reserve(r->rules, r->count, r->capacity, 1))
		return HEFT_ENOMEM;
	int32_t at = 0;
	while (*pattern && (wrapper || (*pattern != '*' && *pattern != '?'))) {
		if (*pattern == '\\' && pattern[1] && !wrapper)
			pattern++;
		at = child_of(t, at, (unsigned char)*pattern++);
		if (at < 0)
			return at;
	}
	char *rest = strdup(pattern);
	if (!rest)
		return HEFT_ENOMEM;
	r->rules[r->count] = (struct rule){
		.rest = rest, .next = t->nodes[at].rules, .wrapper = wrapper, .says = says};
	t->nodes[at].rules = (int32_t)r->count++;
	return 0;
}

/* ---- reading */

/* A piece of a bad line for a message: short, and without bytes that control a terminal. */
static const char *quote(char *out, size_t size, const char *text)
{
	size_t n = 0;
	for (; text[n] && n + 4 < size; n++)
		out[n] = text[n] >= 0x20 && text[n] < 0x7f ? text[n] : '?';
	strcpy(out + n, text[n] ? "..." : "");
	return out;
}

static int add_line(struct frame_rules *r, char *line, const char *name, unsigned number,
		    struct heft_error *err)
{
	static const struct {
		const char *word;
		enum subject name, path;
		bool wrapper;
	} kinds[] = {
		{"module", MODULE_NAME, MODULE_PATH, false},
		{"function", FUNCTION, FUNCTION, false},
		{"file", FILE_NAME, FILE_PATH, false},
		{"wrapper", FUNCTION, FUNCTION, true},
	};
	static const char blank[] = " \t\r";
	char shown[48];
	size_t end = strlen(line);
	while (end && strchr(blank, line[end - 1]))
		line[--end] = 0;
	char *word = line + strspn(line, blank);
	if (!*word || *word == '#')
		return 0;
	char *given = word;
	enum frame_fold says = *word == '!'   ? FRAME_KEPT
			       : *word == '~' ? FRAME_PLUMBING
					      : FRAME_FOLDED;
	word += says != FRAME_FOLDED;
	size_t length = strcspn(word, blank), k = 0;
	char *pattern = word + length + strspn(word + length, blank);
	while (k < 4 &&
	       !(strlen(kinds[k].word) == length && strncmp(kinds[k].word, word, length) == 0))
		k++;
	if (k == 4)
		return heft_fail(err, HEFT_EFORMAT,
				 "%s:%u: expected 'module', 'function', 'file' or 'wrapper', "
				 "not '%s'",
				 name, number, quote(shown, sizeof shown, given));
	if (!*pattern)
		return heft_fail(err, HEFT_EFORMAT, "%s:%u: expected a %s after '%s'", name, number,
				 kinds[k].wrapper ? "function name" : "pattern", kinds[k].word);
	int rc = 0;
	if (!kinds[k].wrapper)
		rc = add_rule(r, strchr(pattern, '/') ? kinds[k].path : kinds[k].name, pattern,
			      false, says);
	for (char *rest = NULL, *one = kinds[k].wrapper ? strtok_r(pattern, blank, &rest) : NULL;
	     one && rc == 0; one = strtok_r(NULL, blank, &rest))
		rc = add_rule(r, FUNCTION, one, true, says);
	return rc == 0 ? 0 : heft_fail(err, HEFT_ENOMEM, "not enough memory for %s", name);
}

int frame_rules_add_text(struct frame_rules *r, const char *name, const char *text, size_t length,
			 struct heft_error *err)
{
	char line[LONGEST_LINE + 1];
	unsigned number = 0;
	if (length > LARGEST_FILE)
		return heft_fail(err, HEFT_EFORMAT, "%s: expected rules for frames, at most %d MiB",
				 name, LARGEST_FILE >> 20);
	for (size_t at = 0; at < length;) {
		const char *newline = memchr(text + at, '\n', length - at);
		size_t size = newline ? (size_t)(newline - (text + at)) : length - at;
		number++;
		if (memchr(text + at, 0, size))
			return heft_fail(err, HEFT_EFORMAT, "%s:%u: expected text, not a NUL byte",
					 name, number);
		if (size > LONGEST_LINE)
			return heft_fail(err, HEFT_EFORMAT,
					 "%s:%u: expected a line of at most %d bytes, not %zu",
					 name, number, LONGEST_LINE, size);
		memcpy(line, text + at, size);
		line[size] = 0;
		int rc = add_line(r, line, name, number, err);
		if (rc < 0)
			return rc;
		at += size + 1;
	}
	return 0;
}

int frame_rules_add_file(struct frame_rules *r, const char *path, struct heft_error *err)
{
	struct stat st;
	size_t used = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		int missing = errno == ENOENT || errno == ENOTDIR;
		int rc = heft_fail_errno(err, "%s", path);
		return missing ? HEFT_ENOTFOUND : rc;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return heft_fail(err, HEFT_EFORMAT, "%s: expected a file with rules for frames",
				 path);
	}
	char *text = malloc(LARGEST_FILE + 2);
	if (!text) {
		close(fd);
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for %s", path);
	}
	int rc = 0;
	while (used <= LARGEST_FILE) {
		ssize_t n = read(fd, text + used, LARGEST_FILE + 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = heft_fail_errno(err, "%s", path);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	close(fd);
	if (rc == 0)
		rc = frame_rules_add_text(r, path, text, used, err);
	free(text);
	return rc;
}

int frame_rules_new(struct frame_rules **out)
{
	struct heft_error err;
	struct frame_rules *r = calloc(1, sizeof *r);
	*out = NULL;
	if (!r)
		return HEFT_ENOMEM;
	int rc = frame_rules_add_text(r, "user_frame.rules", user_frame_rules_text,
				      user_frame_rules_text_size, &err);
	if (rc < 0) {
		frame_rules_free(r);
		return rc;
	}
	r->built_in_count = r->count;
	*out = r;
	return 0;
}

void frame_rules_free(struct frame_rules *r)
{
	if (!r)
		return;
	for (int i = 0; i < SUBJECTS; i++)
		free(r->tries[i].nodes);
	for (uint32_t i = 0; i < r->count; i++)
		free(r->rules[i].rest);
	free(r->rules);
	free(r);
}

/* ---- the built-in rules alone */

static struct frame_rules *built_in; /* stays to the end of the process; NULL: no memory */

static void make_built_in(void)
{
	frame_rules_new(&built_in);
}

static const struct frame_rules *get_built_in(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_built_in);
	return built_in;
}

bool user_frame_module_is_runtime(const char *path)
{
	const struct frame_rules *r = get_built_in();
	return r && frame_rules_fold(r, path, NULL, NULL);
}

bool user_frame_is_runtime(const char *function, const char *file)
{
	const struct frame_rules *r = get_built_in();
	return r && frame_rules_fold(r, NULL, function, file);
}

void user_frame_decide(struct profile_frame *f, bool runtime_module)
{
	const struct frame_rules *r = get_built_in();
	enum frame_fold fold = r ? frame_rules_decide(r, NULL, f->function, f->file)
				 : FRAME_NOT_SAID;
	set_frame(f, runtime_module ? FRAME_FOLDED : fold);
}
