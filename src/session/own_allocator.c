/* Which allocators a process has beside malloc. What it has mapped is read from /proc, so that
 * libraries count as the executable does, also those that were loaded later. A library that exports
 * malloc (libjemalloc.so, libmimalloc.so) is none: it stands behind heft's malloc.
 *
 * The files are others' and may be cut while they are read: they are mapped under the guard against
 * SIGBUS. What a file says is remembered by device, inode, size and time, since a thousand
 * processes map the same libc. */
#include "session/own_allocator.h"

#include "hosted/map_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* KNOWN_FILES: remembered; MAPPED_FILES: of one process that are looked at. */
enum { KNOWN_FILES = 512, MAPPED_FILES = 1024 };

struct known_file {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed;
	struct elf_facts facts;
};

static struct known_file known[KNOWN_FILES]; /* a ring */
static unsigned known_count;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- one file */

static void read_mapped(int fd, struct elf_facts *facts,
			void (*read)(const uint8_t *, size_t, struct elf_facts *))
{
	struct stat st;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return;
	size_t size = (size_t)st.st_size;
	void *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		return;
	if (map_guard_add(file, size)) {
		read(file, size, facts);
		map_guard_remove(file);
	}
	munmap(file, size);
}

static int open_debug_file(const struct elf_facts *facts)
{
	char path[128];
	int n = snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%02x/", facts->build_id[0]);
	for (uint32_t i = 1; i < facts->build_id_bytes; i++)
		n += snprintf(path + n, sizeof path - (size_t)n, "%02x", facts->build_id[i]);
	snprintf(path + n, sizeof path - (size_t)n, ".debug");
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void own_allocator_of_file(int fd, struct elf_facts *facts)
{
	memset(facts, 0, sizeof *facts);
	read_mapped(fd, facts, elf_facts_read);
	if (facts->has_symbols || !facts->build_id_bytes)
		return;
	int debug = open_debug_file(facts);
	if (debug < 0)
		return;
	read_mapped(debug, facts, elf_facts_add_debug);
	close(debug);
}

/* ---- words */

static void add_way_out(const struct elf_facts *facts, char *out, size_t size)
{
	const char *name = facts->allocator;
	if (facts->own_malloc == ELF_MALLOC_LIKELY) {
		int n = snprintf(
			out, size,
			"\nheft run and heft attach see it if its symbols are there: in the "
			"file, or in a file apart, under /usr/lib/debug/.build-id or beside "
			"it (.gnu_debuglink).");
		if (n < 0 || (size_t)n >= size)
			return;
		out += n;
		size -= (size_t)n;
	}
	if (!name) {
		snprintf(out, size,
			 "\nFor a recording, build it with the system's allocator, or make its own "
			 "a shared library: heft records whatever allocator is behind malloc.");
		return;
	}
	bool shared = strstr("jemalloc mimalloc tcmalloc snmalloc rpmalloc scudo", name);
	int n = snprintf(out, size,
			 "\n%suild it with the system's allocator (Rust: without "
			 "#[global_allocator])%s%s%s",
			 facts->own_malloc == ELF_MALLOC_LIKELY ? "Or b" : "For a recording, b",
			 shared ? "; LD_PRELOAD with the shared library of " : ".",
			 shared ? name : "",
			 shared ? " then keeps the allocator, and heft records it." : "");
	if (n < 0 || (size_t)n >= size || !facts->dumps)
		return;
	if (strcmp(name, "jemalloc") == 0)
		snprintf(out + n, size - (size_t)n,
			 "\nAs it is, its jemalloc can write heap profiles that heft reads:"
			 "\nrun it with %s=prof:true,lg_prof_interval:26 (one for each 64 MiB "
			 "allocated),"
			 "\nthen: heft report \"$(ls -t jeprof.*.heap | head -1)\"",
			 *facts->conf_name ? facts->conf_name : "MALLOC_CONF");
	else if (strcmp(name, "tcmalloc") == 0)
		snprintf(out + n, size - (size_t)n,
			 "\nAs it is, its tcmalloc can write heap profiles that heft reads:"
			 "\nrun it with HEAPPROFILE=/tmp/profile, then: heft report "
			 "/tmp/profile.0001.heap");
}

void own_allocator_words(const char *path, const struct elf_facts *facts, bool library, char *out,
			 size_t size)
{
	const char *name = facts->allocator ? facts->allocator : "an allocator";
	const char *of = library ? ", a library of this program," : "";
	int n = 0;
	*out = 0;
	switch (facts->own_malloc) {
	case ELF_MALLOC_SHARED: return;
	case ELF_MALLOC_EXPORTED:
		n = snprintf(out, size,
			     "%s defines malloc itself%s%s%s: the dynamic loader prefers it to "
			     "heft's, so its allocations are not recorded.",
			     path, facts->allocator ? " (" : "",
			     facts->allocator ? facts->allocator : "", facts->allocator ? ")" : "");
		break;
	case ELF_MALLOC_INTERNAL:
		n = snprintf(out, size,
			     "%s%s has %s linked in%s%s%s: what it allocates there does not pass "
			     "through malloc and is not recorded.",
			     path, of, name, *facts->malloc_name ? " (" : "", facts->malloc_name,
			     *facts->malloc_name ? ")" : "");
		break;
	case ELF_MALLOC_NEEDED:
		n = snprintf(out, size,
			     "%s%s calls %s directly (%s): what it allocates there does not pass "
			     "through malloc and is not recorded.",
			     path, of, name, facts->malloc_name);
		break;
	case ELF_MALLOC_LIKELY:
		n = snprintf(
			out, size,
			"%s%s is stripped, but carries the messages of %s: if that allocator is "
			"linked in, what it allocates there is not recorded.",
			path, of, name);
		break;
	}
	if (n > 0 && (size_t)n < size)
		add_way_out(facts, out + n, size - (size_t)n);
}

/* ---- what a process has mapped */

static bool find_known(const struct stat *st, struct elf_facts *facts)
{
	bool found = false;
	pthread_mutex_lock(&known_lock);
	unsigned count = known_count < KNOWN_FILES ? known_count : KNOWN_FILES;
	for (unsigned i = 0; i < count && !found; i++) {
		const struct known_file *k = &known[i];
		found = k->inode == st->st_ino && k->device == st->st_dev &&
			k->size == st->st_size && k->changed.tv_sec == st->st_ctim.tv_sec &&
			k->changed.tv_nsec == st->st_ctim.tv_nsec;
		if (found)
			*facts = k->facts;
	}
	pthread_mutex_unlock(&known_lock);
	return found;
}

static void remember(const struct stat *st, const struct elf_facts *facts)
{
	pthread_mutex_lock(&known_lock);
	known[known_count++ % KNOWN_FILES] = (struct known_file){st->st_dev, st->st_ino,
								 st->st_size, st->st_ctim, *facts};
	if (known_count == 2 * KNOWN_FILES)
		known_count = KNOWN_FILES;
	pthread_mutex_unlock(&known_lock);
}

/* Opens a regular file. A process chooses the names of what it has mapped, and to open a device may do something: what a
 * name leads to is known before. */
static int open_place(int place, const char *path)
{
	const int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	char name[32];
	snprintf(name, sizeof name, "/proc/self/fd/%d", place);
	int fd = open(name, how);
	return fd < 0 && errno == ENOENT ? open(path, how) : fd; /* /proc is not there */
}

/* What is remembered is remembered of the file that was read: the path may lead to another one at
 * any time. inode: the file that is meant, 0: whatever is there. */
static bool facts_of_path(const char *path, ino_t inode, struct elf_facts *facts)
{
	struct stat st, after;
	int place = open(path, O_PATH | O_CLOEXEC), fd = -1;
	if (place < 0)
		return false;
	bool meant = fstat(place, &st) == 0 && S_ISREG(st.st_mode) &&
		     (!inode || st.st_ino == inode);
	if (meant && !find_known(&st, facts)) {
		fd = open_place(place, path);
		meant = fd >= 0;
	}
	if (fd >= 0) {
		own_allocator_of_file(fd, facts);
		if (fstat(fd, &after) == 0 && after.st_size == st.st_size &&
		    after.st_ctim.tv_sec == st.st_ctim.tv_sec &&
		    after.st_ctim.tv_nsec == st.st_ctim.tv_nsec)
			remember(&st, facts);
		close(fd);
	}
	close(place);
	return meant;
}

/* The file as the process sees it, if that is still the one it has mapped. */
static bool facts_of(pid_t pid, const struct own_allocator_mapped *m, struct elf_facts *facts)
{
	char path[4200];
	snprintf(path, sizeof path, "/proc/%d/root%s", pid, m->path);
	return facts_of_path(path, m->inode, facts) || facts_of_path(m->path, m->inode, facts);
}

/* The executable counts more than a library; what is certain counts more than what is likely. */
static bool is_better(const struct own_allocator *was, enum elf_own_malloc how, bool library)
{
	if (was->how == ELF_MALLOC_SHARED)
		return true;
	if (was->library != library)
		return was->library;
	return was->how == ELF_MALLOC_LIKELY && how != ELF_MALLOC_LIKELY;
}

static void take(const char *path, const struct elf_facts *facts, bool library,
		 struct own_allocator *out)
{
	if (!library)
		out->own_new = facts->own_new;
	if (facts->own_malloc == ELF_MALLOC_SHARED || (library && facts->exports_malloc) ||
	    !is_better(out, facts->own_malloc, library))
		return;
	out->how = facts->own_malloc;
	out->library = library;
	own_allocator_words(path, facts, library, out->text, sizeof out->text);
}

bool own_allocator_line(char *line, struct own_allocator_mapped *m)
{
	unsigned major, minor;
	unsigned long long inode;
	char mode[5];
	int at = 0;
	line[strcspn(line, "\n")] = 0;
	if (sscanf(line, "%*x-%*x %4s %*x %x:%x %llu %n", mode, &major, &minor, &inode, &at) < 4 ||
	    mode[2] != 'x' || !inode || line[at] != '/')
		return false;
	m->device = makedev(major, minor);
	m->inode = inode;
	snprintf(m->path, sizeof m->path, "%s", line + at);
	return true;
}

static bool is_seen(struct own_allocator_seen seen, dev_t device, ino_t inode)
{
	for (uint32_t i = 0; i < seen.count; i++)
		if (seen.files[i].inode == inode && (!device || seen.files[i].device == device))
			return true;
	return false;
}

/* Each file that a process has mapped as code, once; false: it is not there, or may not be looked at. */
static bool each_file(pid_t pid, void (*see)(void *ctx, const struct own_allocator_mapped *m),
		      void *ctx)
{
	char path[64], *line = NULL;
	size_t line_size = 0;
	struct own_allocator_mapped m, last = {0};
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return false;
	for (unsigned files = 0; files < MAPPED_FILES && getline(&line, &line_size, maps) > 0;) {
		if (!own_allocator_line(line, &m) ||
		    (m.inode == last.inode && m.device == last.device))
			continue;
		see(ctx, &m);
		last.inode = m.inode;
		last.device = m.device;
		files++;
	}
	free(line);
	fclose(maps);
	return true;
}

struct look {
	pid_t pid;
	ino_t exe;
	struct own_allocator_seen seen;
	const char *seen_names[WIRE_HOOKED]; /* allocators of files that are seen */
	uint32_t seen_count;
	struct own_allocator *out;
};

static void note_seen(void *ctx, const struct own_allocator_mapped *m)
{
	struct look *l = ctx;
	struct elf_facts facts;
	if (is_seen(l->seen, m->device, m->inode) && l->seen_count < WIRE_HOOKED &&
	    facts_of(l->pid, m, &facts) && facts.allocator)
		l->seen_names[l->seen_count++] = facts.allocator;
}

/* A file that calls mi_malloc of a library is seen if that library is. */
static bool calls_seen(const struct look *l, const struct elf_facts *facts)
{
	for (uint32_t i = 0; i < l->seen_count; i++)
		if (facts->own_malloc == ELF_MALLOC_NEEDED && facts->allocator &&
		    !strcmp(l->seen_names[i], facts->allocator))
			return true;
	return false;
}

static void note_file(void *ctx, const struct own_allocator_mapped *m)
{
	struct look *l = ctx;
	struct elf_facts facts;
	if (!is_seen(l->seen, m->device, m->inode) && facts_of(l->pid, m, &facts) &&
	    !calls_seen(l, &facts))
		take(m->path, &facts, m->inode != l->exe, l->out);
}

bool own_allocator_of_process(pid_t pid, struct own_allocator_seen seen, struct own_allocator *out)
{
	char path[64];
	struct stat exe = {0};
	struct look l = {.pid = pid, .seen = seen, .out = out};
	memset(out, 0, sizeof *out);
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	if (stat(path, &exe))
		return false;
	l.exe = exe.st_ino;
	if (seen.count && !each_file(pid, note_seen, &l))
		return false;
	return each_file(pid, note_file, &l);
}

bool own_allocator_of_program(const char *path, struct own_allocator_seen seen,
			      struct own_allocator *out)
{
	struct elf_facts facts;
	struct stat st;
	memset(out, 0, sizeof *out);
	if (!facts_of_path(path, 0, &facts))
		return false;
	/* The device that maps names may be another one than that of the file. The library whose allocator the program calls
	 * by other names than malloc is hooked, too, where anything is. */
	bool is_hooked = facts.own_malloc == ELF_MALLOC_NEEDED && seen.count;
	if (!is_hooked && (stat(path, &st) || !is_seen(seen, 0, st.st_ino)))
		take(path, &facts, false, out);
	return true;
}
