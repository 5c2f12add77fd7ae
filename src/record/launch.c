/* Looking before leaping: what a command is, before it is run. The kernel and the dynamic loader
 * ignore LD_PRELOAD silently (static programs, AT_SECURE) or fail with a bare errno (wrong
 * architecture, missing interpreter); a user is owed the reason and a way out. Where nothing can be
 * preloaded, heft sets its hooks at the entries of malloc and its siblings when the program starts.
 *
 * The search follows glibc's execvp: a name with a slash is taken as it is, else each directory of
 * PATH is tried, and "permission denied" is remembered but does not end the search. A script is
 * followed to the program that will run it, because that is the one that allocates. What is found
 * here can change before the exec: that is no security check, the exec decides. */
#include "record/launch.h"

#include "hosted/map_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPT_DEPTH 4  /* as the kernel: an interpreter may be a script itself */
#define SCRIPT_LINE 256 /* as the kernel: bytes it looks at */

/* ---- finding it */

/* 0, or the errno that execve would give for a file of that name. */
static int can_execute(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? EISDIR : EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static int refuse_execution(const char *path, int reason, struct heft_error *err)
{
	struct statvfs fs;

	if (reason == ENOENT || reason == ENOTDIR)
		return heft_fail(err, HEFT_ENOTFOUND, "%s: %s", path, strerror(reason));
	if (reason == EISDIR)
		return heft_fail(err, HEFT_ENOEXEC, "%s is a directory, not a program", path);
	if (reason == EACCES && statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC))
		return heft_fail(err, HEFT_ENOEXEC,
				 "%s is on a file system mounted noexec\n"
				 "copy it elsewhere and run the copy",
				 path);
	if (reason == EACCES && access(path, F_OK) == 0)
		return heft_fail(err, HEFT_ENOEXEC,
				 "%s is not executable\n"
				 "make it so with: chmod +x %s",
				 path, path);
	return heft_fail(err, HEFT_ENOEXEC, "cannot execute %s: %s", path, strerror(reason));
}

static int find_command(const char *cmd, char path[PATH_MAX], struct heft_error *err)
{
	int reason = ENOENT;
	char denied[PATH_MAX] = "";

	if (!*cmd)
		return heft_fail(err, HEFT_ENOTFOUND, "the command is an empty string");
	if (strlen(cmd) >= PATH_MAX)
		return heft_fail(err, HEFT_ENOTFOUND, "the name of the command is too long");
	if (strchr(cmd, '/')) {
		strcpy(path, cmd);
		reason = can_execute(path);
		return reason ? refuse_execution(path, reason, err) : 0;
	}
	const char *dirs = getenv("PATH");

	if (!dirs)
		dirs = "/bin:/usr/bin";
	for (const char *dir = dirs;; dir++) {
		size_t length = strcspn(dir, ":");
		/* An empty element is the current directory. */
		int n = length ? snprintf(path, PATH_MAX, "%.*s/%s", (int)length, dir, cmd)
			       : snprintf(path, PATH_MAX, "./%s", cmd);

		if (n > 0 && n < PATH_MAX) {
			reason = can_execute(path);
			if (reason == 0)
				return 0;
			if (reason == EACCES && !*denied)
				strcpy(denied, path);
		}
		dir += length;
		if (!*dir)
			break;
	}
	if (*denied)
		return refuse_execution(denied, EACCES, err);
	if (can_execute(cmd) == 0)
		return heft_fail(err, HEFT_ENOTFOUND,
				 "%s: no such command in PATH\n"
				 "to run the one in this directory, say ./%s",
				 cmd, cmd);
	return heft_fail(err, HEFT_ENOTFOUND, "%s: no such command in PATH", cmd);
}

static bool must_preload(const struct launch_plan *plan)
{
	return plan->via == LAUNCH_VIA_PRELOAD || plan->via == LAUNCH_VIA_COUNT;
}

static const char *other_way(const struct launch_plan *plan)
{
	return plan->via == LAUNCH_VIA_COUNT ? "heft run without --count records it."
					     : "Run it with --via=auto.";
}

static void take_entry(struct launch_plan *plan, const char *why)
{
	plan->way = LAUNCH_ENTRY;
	plan->why = why;
}

/* ---- privileges: AT_SECURE makes the loader ignore LD_PRELOAD */

static int check_privileges(const char *path, int fd, struct launch_plan *plan,
			    struct heft_error *err)
{
	struct stat st;
	struct statvfs fs;
	const char *what = NULL;
	char caps[64];

	if (fd < 0 ? stat(path, &st) != 0 : fstat(fd, &st) != 0)
		return heft_fail_errno(err, "cannot look at %s", path);
	/* Where the bits have no effect the program runs, and is recorded, without them. */
	if ((statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID)) ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return 0;
	/* The kernel compares effective with real ids: root running a setuid-root program gains
	 * nothing, and the loader then honours LD_PRELOAD. */
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		what = "is a setuid program";
	else if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid())
		what = "is a setgid program";
	else if (getuid() != 0 && getxattr(path, "security.capability", caps, sizeof(caps)) > 0)
		what = "has file capabilities";
	if (!what)
		return 0;
	/* Root may trace it, and it keeps its privileges then. For others the kernel takes them away. */
	if (!must_preload(plan) && getuid() == 0) {
		take_entry(plan, what);
		return 0;
	}
	const char *name = strrchr(path, '/');

	return heft_fail(err, HEFT_EREFUSED,
			 "%s %s: the dynamic loader ignores LD_PRELOAD there, so heft cannot see "
			 "its allocations\n"
			 "record a copy without that privilege: cp %s /tmp/ && heft run /tmp/%s%s",
			 path, what, path, name ? name + 1 : path,
			 getuid() != 0 && (st.st_mode & S_ISUID) && st.st_uid == 0
				 ? ", or run heft as root"
				 : "");
}

/* ---- looking at it */

static int inspect(const char *path, struct launch_plan *plan, int depth, struct heft_error *err);

/* The word that env will run: its operands after options and assignments. `words` is what stands
 * after "env" on the #! line; the kernel hands it over as one argument, so only -S splits it. */
static bool env_command(char *words, char **command)
{
	char *save = NULL;

	if (strncmp(words, "-S", 2) == 0)
		words += 2;
	else if (strncmp(words, "--split-string=", 15) == 0)
		words += 15;
	else if (words[0] == '-' || strchr(words, '='))
		return false;
	else {
		*command = words;
		return true;
	}
	for (char *w = strtok_r(words, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		if (strcmp(w, "-u") == 0 || strcmp(w, "-C") == 0) {
			strtok_r(NULL, " \t", &save);
			continue;
		}
		if (w[0] == '-' || strchr(w, '='))
			continue;
		*command = w;
		return true;
	}
	return false;
}

static int inspect_script(const char *path, const uint8_t *file, size_t size,
			  struct launch_plan *plan, int depth, struct heft_error *err)
{
	char line[SCRIPT_LINE + 1], interpreter[PATH_MAX];
	size_t length = size - 2 < SCRIPT_LINE ? size - 2 : SCRIPT_LINE;
	struct heft_error why = {0};

	memcpy(line, file + 2, length);
	line[length] = 0;
	line[strcspn(line, "\n")] = 0;
	char *name = line + strspn(line, " \t");
	char *end = name + strcspn(name, " \t");
	char *words = end + strspn(end, " \t");

	*end = 0;
	for (char *tail = words + strlen(words); tail > words && strchr(" \t\r", tail[-1]);)
		*--tail = 0;
	if (!*name)
		return heft_fail(err, HEFT_ENOEXEC, "%s: its #! line names no interpreter", path);
	plan->script = true;
	if (name[strlen(name) - 1] == '\r')
		return heft_fail(err, HEFT_ENOEXEC,
				 "%s: its #! line ends in a carriage return, which becomes part of "
				 "the interpreter's name\n"
				 "remove it with: sed -i 's/\\r$//' %s",
				 path, path);
	int reason = can_execute(name);

	if (reason)
		return heft_fail(err, HEFT_ENOEXEC, "%s: its interpreter %s: %s", path, name,
				 strerror(reason));
	const char *base = strrchr(name, '/');
	char *command;

	strcpy(interpreter, name);
	if (strcmp(base ? base + 1 : name, "env") == 0 && env_command(words, &command)) {
		int status = find_command(command, interpreter, &why);
		plan->execs++;

		if (status)
			return heft_fail(err, status, "%s: its #! line asks env for %s", path,
					 why.message);
	}
	return inspect(interpreter, plan, depth + 1, err);
}

/* Neither ELF nor #!: execvp and shells hand it to /bin/sh unless it looks binary. */
static int inspect_text(const char *path, const uint8_t *file, size_t size,
			struct launch_plan *plan, int depth, struct heft_error *err)
{
	size_t look = size < SCRIPT_LINE ? size : SCRIPT_LINE;

	if (look && memchr(file, 0, look))
		return heft_fail(err, HEFT_ENOEXEC,
				 "%s is neither an ELF program nor a script: it cannot be executed",
				 path);
	plan->script = true;
	return inspect("/bin/sh", plan, depth + 1, err);
}

/* Loaders themselves have no PT_INTERP, yet `ld-linux-x86-64.so.2 PROGRAM` honours LD_PRELOAD. */
static bool is_loader(const char *path)
{
	char real[PATH_MAX];
	const char *base = realpath(path, real) ? strrchr(real, '/') : NULL;

	return base && strncmp(base, "/ld-linux", 9) == 0;
}

/* Whether a file has a text. What is not there, or cannot be read, has none. */
static bool file_has(const char *path, const char *text, size_t bytes)
{
	struct stat st;
	bool found = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return false;
	if (map_guard_add(file, (size_t)st.st_size)) {
		found = memmem(file, (size_t)st.st_size, text, bytes) != NULL;
		map_guard_remove(file);
	}
	munmap(file, (size_t)st.st_size);
	return found;
}

/* Of another C library than heft's own: why the program would not start with heft's library, in words; NULL: it is none.
 * A loader may have any name: people put one beside their program. heft's library needs _dl_find_object, which came
 * with glibc 2.35, and glibc's loader has the names of its versions. */
static const char *foreign_libc(const char *loader)
{
	static const char glibc[] = "GLIBC_PRIVATE", needed[] = "GLIBC_2.35", musl[] = "musl libc";
	const char *name = strrchr(loader, '/');
	if (name && strncmp(name, "/ld-musl", 8) == 0)
		return "is linked with musl";
	if (file_has(loader, glibc, sizeof glibc))
		return file_has(loader, needed, sizeof needed) ? NULL
							       : "has a glibc older than 2.35";
	return file_has(loader, musl, sizeof musl - 1) ? "is linked with musl" : NULL;
}

/* Programs that are linked statically with glibc have the names of its tunables. Those of other C libraries may execute
 * programs of these, whose loaders fail over heft's library. */
static bool is_static_glibc(const char *path)
{
	static const char tunable[] = "glibc.malloc.";
	return file_has(path, tunable, sizeof tunable - 1);
}

static int inspect_static(const char *path, struct launch_plan *plan, struct heft_error *err)
{
	if (!must_preload(plan)) {
		take_entry(plan, "is statically linked");
		plan->may_preload = is_static_glibc(path);
		return 0;
	}
	return heft_fail(err, HEFT_EREFUSED,
			 "%s is statically linked: no library can be preloaded into it\n%s", path,
			 other_way(plan));
}

/* Another C library than heft's own */
static int inspect_libc(const char *path, const struct elf_facts *facts, struct launch_plan *plan,
			struct heft_error *err)
{
	const char *loader = strrchr(facts->interpreter, '/');
	const char *what = foreign_libc(facts->interpreter);
	if (loader && strncmp(loader, "/linker64", 9) == 0)
		return heft_fail(
			err, HEFT_EREFUSED,
			"%s is linked with bionic (loader %s); heft's library needs glibc\n"
			"build it for glibc (Rust: --target x86_64-unknown-linux-gnu)",
			path, facts->interpreter);
	if (!what)
		return 0;
	if (!must_preload(plan)) {
		take_entry(plan, what);
		return 0;
	}
	return heft_fail(err, HEFT_EREFUSED,
			 "%s %s (loader %s); heft's library needs glibc 2.35\n%s", path, what,
			 facts->interpreter, other_way(plan));
}

/* An allocator that the program has itself is hooked where it is. One that is only likely may have its names in a
 * file apart, which src/attach finds, or refuses. */
static void take_own_malloc(struct launch_plan *plan, enum elf_own_malloc own)
{
	switch (own) {
	case ELF_MALLOC_EXPORTED: take_entry(plan, "defines malloc itself"); break;
	case ELF_MALLOC_INTERNAL: take_entry(plan, "has an allocator linked in"); break;
	case ELF_MALLOC_NEEDED: take_entry(plan, "calls an allocator that is not malloc"); break;
	case ELF_MALLOC_LIKELY: take_entry(plan, "carries the messages of an allocator"); break;
	case ELF_MALLOC_SHARED: break;
	}
}

static int inspect_elf(const char *path, const struct elf_facts *facts, struct launch_plan *plan,
		       struct heft_error *err)
{
	switch (facts->kind) {
	case ELF_DAMAGED:
		return heft_fail(err, HEFT_ENOEXEC, "%s is a damaged ELF file: %s", path,
				 facts->what);
	case ELF_NO_PROGRAM:
		return heft_fail(err, HEFT_ENOEXEC, "%s is %s: it cannot be executed", path,
				 facts->what);
	case ELF_OTHER:
		/* The 32-bit kinds of x86 would run here, only not be recorded. */
		return heft_fail(err, strstr(facts->what, "x86") ? HEFT_EREFUSED : HEFT_ENOEXEC,
				 "%s is a program for %s; this heft records x86-64 programs\n"
				 "build it for x86-64, or use a heft built for its architecture",
				 path, facts->what);
	case ELF_STATIC:
		if (is_loader(path))
			break;
		return inspect_static(path, plan, err);
	case ELF_DYNAMIC:
		if (access(facts->interpreter, F_OK) != 0)
			return heft_fail(err, HEFT_ENOEXEC,
					 "%s needs the dynamic loader %s, which is not here", path,
					 facts->interpreter);
		if (facts->sanitizer)
			return heft_fail(err, HEFT_EREFUSED,
					 "%s is built with %s, whose runtime replaces malloc and "
					 "must be loaded first\n"
					 "build it without -fsanitize to record it",
					 path, facts->sanitizer);
		if (facts->go_alone)
			return heft_fail(
				err, HEFT_EREFUSED,
				"%s is a Go program without cgo: its heap is not malloc's\n"
				"Import net/http/pprof in it; heft report reads what its "
				"/debug/pprof/heap gives.",
				path);
		if (inspect_libc(path, facts, plan, err))
			return err->code;
		if (plan->way == LAUNCH_PRELOAD && plan->via == LAUNCH_VIA_ENTRY)
			take_entry(plan, NULL);
		if (plan->way == LAUNCH_PRELOAD && plan->via == LAUNCH_VIA_AUTO)
			take_own_malloc(plan, facts->own_malloc);
		plan->own_malloc = facts->own_malloc;
		memcpy(plan->malloc_name, facts->malloc_name, sizeof(plan->malloc_name));
		plan->allocator = facts->allocator;
		own_allocator_words(path, facts, false, plan->own_malloc_text,
				    sizeof(plan->own_malloc_text));
		break;
	case ELF_NOT_ELF: break;
	}
	return 0;
}

static int inspect(const char *path, struct launch_plan *plan, int depth, struct heft_error *err)
{
	struct elf_facts facts;
	struct stat st;
	uint8_t head[SCRIPT_LINE + 2]; /* of a script: "#!" and its line */
	int status, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (depth > SCRIPT_DEPTH) {
		status = heft_fail(err, HEFT_ENOEXEC, "%s: scripts are nested too deeply", path);
		goto out;
	}
	snprintf(plan->elf, sizeof(plan->elf), "%s", path);
	if (fd < 0 && errno == EACCES) { /* mode 0711: it runs, but nobody may look */
		plan->unreadable = true;
		status = check_privileges(path, -1, plan, err);
		goto out;
	}
	if (fd < 0 || fstat(fd, &st) != 0) {
		status = heft_fail_errno(err, "cannot open %s", path);
		goto out;
	}
	own_allocator_of_file(fd, &facts);
	if (facts.kind != ELF_NOT_ELF) {
		status = check_privileges(path, fd, plan, err);
		if (status == 0)
			status = inspect_elf(path, &facts, plan, err);
		goto out;
	}
	ssize_t length = pread(fd, head, sizeof(head), 0);

	if (length < 0)
		status = heft_fail_errno(err, "cannot read %s", path);
	else if (length >= 2 && head[0] == '#' && head[1] == '!')
		status = inspect_script(path, head, (size_t)length, plan, depth, err);
	else
		status = inspect_text(path, head, (size_t)length, plan, depth, err);
out:
	if (fd >= 0)
		close(fd);
	return status;
}

enum wire_program_kind launch_kind_of(int fd, const char *root)
{
	struct elf_facts facts;
	char loader[PATH_MAX];
	own_allocator_of_file(fd, &facts);
	if (facts.kind != ELF_DYNAMIC)
		return WIRE_PROGRAM_TAKES;
	if (facts.sanitizer || facts.go_alone)
		return WIRE_PROGRAM_REFUSES;
	snprintf(loader, sizeof loader, "%s%s", root, facts.interpreter);
	if (foreign_libc(loader))
		return WIRE_PROGRAM_FOREIGN;
	switch (facts.own_malloc) {
	case ELF_MALLOC_EXPORTED:
	case ELF_MALLOC_INTERNAL:
	case ELF_MALLOC_NEEDED: return WIRE_PROGRAM_OWN_ALLOCATOR;
	case ELF_MALLOC_LIKELY: /* it could not be hooked */
	case ELF_MALLOC_SHARED: break;
	}
	return WIRE_PROGRAM_TAKES;
}

int launch_inspect(const char *cmd, enum launch_via via, struct launch_plan *plan,
		   struct heft_error *err)
{
	memset(plan, 0, sizeof(*plan));
	plan->via = via;
	plan->execs = 1;
	int status = find_command(cmd, plan->path, err);

	return status ? status : inspect(plan->path, plan, 0, err);
}

/* ---- its environment */

static bool same_name(const char *variable, const char *setting)
{
	size_t length = strcspn(setting, "=");

	return strncmp(variable, setting, length) == 0 && variable[length] == '=';
}

static bool is_replaced(const char *variable, const char *const *settings)
{
	for (; *settings; settings++)
		if (same_name(variable, *settings))
			return true;
	return false;
}

/* "LD_PRELOAD=" preload, then what `old` names, separators kept, without an entry equal to
 * preload (heft inside heft). */
static char *write_preload(char *to, const char *preload, const char *old)
{
	size_t own = strlen(preload);

	to += sprintf(to, "LD_PRELOAD=%s", preload);
	while (old && *old) {
		size_t separators = strspn(old, ": ");
		size_t entry = strcspn(old + separators, ": ");

		if (entry && !(entry == own && memcmp(old + separators, preload, own) == 0)) {
			*to++ = separators ? old[0] : ':';
			memcpy(to, old + separators, entry);
			to += entry;
		}
		old += separators + entry;
	}
	*to++ = 0;
	return to;
}

char **launch_environment(char *const *environment, const char *preload,
			  const char *const *settings)
{
	static const char name[] = "LD_PRELOAD=";
	size_t count = 0, set = 0, bytes = 0, at = 0;
	bool preloaded = !preload;

	for (; environment[count]; count++)
		if (preload && strncmp(environment[count], name, sizeof(name) - 1) == 0)
			bytes += strlen(environment[count]) + strlen(preload) + 2;
	for (; settings[set]; set++)
		bytes += strlen(settings[set]) + 1;
	bytes += sizeof(name) + (preload ? strlen(preload) : 0) + 1;
	char **out = malloc((count + set + 2) * sizeof(*out) + bytes);

	if (!out)
		return NULL;
	char *text = (char *)(out + count + set + 2);

	for (size_t i = 0; i < count; i++) {
		if (is_replaced(environment[i], settings))
			continue;
		out[at] = environment[i];
		if (preload && strncmp(environment[i], name, sizeof(name) - 1) == 0) {
			out[at] = text;
			text = write_preload(text, preload, environment[i] + sizeof(name) - 1);
			preloaded = true;
		}
		at++;
	}
	if (!preloaded) {
		out[at++] = text;
		text = write_preload(text, preload, NULL);
	}
	for (size_t i = 0; i < set; i++) {
		out[at++] = text;
		text = stpcpy(text, settings[i]) + 1;
	}
	out[at] = NULL;
	return out;
}
