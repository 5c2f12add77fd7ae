/* Looks at a file before it is executed.
 *
 * Our library is for x86-64 and glibc. musl's loader finds it in LD_PRELOAD, does not
 * find glibc's functions and refuses to start the program. The loader of 32-bit
 * programs prints a complaint and goes on. Such a program must be executed without
 * heft's variables. A static program has no loader: it ignores them. Programs of musl
 * and static ones can be held at their start instead (held_exec.c). The outside knows more kinds:
 * it is asked about programs that seem to take the library.
 *
 * Whatever cannot be read or is not understood counts as a program that takes the
 * library: then all is as the environment says. What is decided here can be wrong if
 * the file changes before the exec. Nothing is allocated, and a vfork child may call
 * this: it needs a little of the stack only. */
#include "capture/preloadable.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
	HEAD_BYTES = 1024,   /* linkers put the loader's name right behind the program headers */
	PATH_BYTES = 512,    /* longer ones are not looked at */
	SCRIPT_DEPTH = 4,    /* as the kernel: an interpreter may be a script itself */
	SEARCHED_MOST = 256, /* folders of PATH */
	NAME_SHOWN = 8,
};

struct head {
	uint8_t bytes[HEAD_BYTES];
	size_t count;
	int privileged; /* it gives other privileges, or cannot be asked */
	int fd;
	char name[NAME_SHOWN]; /* how the name of the file begins, behind links; "": not known */
};

/* Tracing takes away the privileges that a file gives. A filter might kill us for the question. */
static int is_privileged(int fd)
{
	struct stat st;
	if (heft_sandbox_has_filter() || sys_fstat(fd, &st) || st.st_mode & (S_ISUID | S_ISGID))
		return 1;
	return sys_call4(SYS_fgetxattr, fd, (long)"security.capability", 0, 0) >= 0;
}

static void read_name(struct head *h, int fd)
{
	char link[HEFT_FD_PATH], path[PATH_BYTES];
	long n = sys_readlink(heft_fd_path(fd, link), path, sizeof path);
	long from = n > 0 ? n : 0;
	while (from > 0 && path[from - 1] != '/')
		from--;
	memset(h->name, 0, sizeof h->name);
	for (unsigned i = 0; i + 1 < sizeof h->name && from + (long)i < n; i++)
		h->name[i] = path[from + (long)i];
}

static int read_head(struct head *h, int folder, const char *path)
{
	int fd = sys_open_in(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return 0;
	long n = sys_read(fd, h->bytes, sizeof h->bytes);
	h->count = n > 0 ? (size_t)n : 0;
	read_name(h, fd);
	h->privileged = is_privileged(fd);
	h->fd = fd;
	return 1;
}

/* The first file of that name along PATH */
static int search_head(struct head *h, const char *name, char *const *environment)
{
	char path[PATH_BYTES];
	const char *at = NULL;
	size_t length = strlen(name);
	for (char *const *e = environment; *e && !at; e++)
		if (!strncmp(*e, "PATH=", 5))
			at = *e + 5;
	for (unsigned i = 0; at && i < SEARCHED_MOST; i++) {
		size_t n = strcspn(at, ":");
		if (n + length + 2 <= sizeof path) {
			memcpy(path, at, n);
			path[n] = '/';
			memcpy(path + n + (n > 0), name, length + 1);
			if (read_head(h, SYS_NO_FOLDER, path))
				return 1;
		}
		at += n;
		if (!*at++)
			break;
	}
	return 0;
}

/* "#! /bin/sh -e": copies the interpreter's path. */
static int is_script(const struct head *h, char to[PATH_BYTES])
{
	size_t i = 2, n = 0;
	if (h->count < 3 || h->bytes[0] != '#' || h->bytes[1] != '!')
		return 0;
	while (i < h->count && (h->bytes[i] == ' ' || h->bytes[i] == '\t'))
		i++;
	while (i < h->count && n < PATH_BYTES - 1 && h->bytes[i] && !strchr(" \t\r\n", h->bytes[i]))
		to[n++] = (char)h->bytes[i++];
	to[n] = 0;
	return n > 0;
}

/* Whether the name of a loader is one of musl's: /lib/ld-musl-x86_64.so.1 */
static int is_musl(const char *name, size_t bytes)
{
	static const char musl[] = "/ld-musl";
	for (size_t i = 0; i + sizeof musl - 1 <= bytes; i++)
		if (!memcmp(name + i, musl, sizeof musl - 1))
			return 1;
	return 0;
}

/* Loaders have no loader, yet take LD_PRELOAD if they are executed with a program's name. */
static int is_loader(const struct head *h)
{
	return !h->name[0] || !strncmp(h->name, "ld-", 3) || !strncmp(h->name, "ld.so", 5) ||
	       !strncmp(h->name, "libc.", 5);
}

static enum heft_file_kind kind_of(const struct head *h)
{
	Elf64_Ehdr e;
	if (h->count < sizeof e || memcmp(h->bytes, ELFMAG, SELFMAG) != 0)
		return HEFT_FILE_TAKES;
	memcpy(&e, h->bytes, sizeof e);
	if (e.e_ident[EI_CLASS] == ELFCLASS32)
		return HEFT_FILE_REFUSES;
	if (e.e_phentsize != sizeof(Elf64_Phdr) || e.e_machine != EM_X86_64)
		return HEFT_FILE_TAKES;
	for (uint64_t i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;
		if (e.e_phoff > h->count || (i + 1) * sizeof p > h->count - e.e_phoff)
			return HEFT_FILE_TAKES;
		memcpy(&p, h->bytes + e.e_phoff + i * sizeof p, sizeof p);
		if (p.p_type != PT_INTERP)
			continue;
		if (p.p_offset > h->count || p.p_filesz > h->count - p.p_offset ||
		    !is_musl((const char *)h->bytes + p.p_offset, p.p_filesz))
			return HEFT_FILE_TAKES;
		return HEFT_FILE_FOREIGN;
	}
	return is_loader(h) ? HEFT_FILE_TAKES : HEFT_FILE_STATIC;
}

const char *heft_fd_path(int fd, char to[HEFT_FD_PATH])
{
	char digits[12];
	unsigned n = 0, value = fd < 0 ? 0 : (unsigned)fd;
	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	char *end = stpcpy(to, "/proc/self/fd/");
	while (n)
		*end++ = digits[--n];
	*end = 0;
	return to;
}

void heft_file_look(struct heft_file *f, int folder, const char *path, char *const *search)
{
	char interpreter[PATH_BYTES];
	struct head h;
	int found = search && !strchr(path, '/') ? search_head(&h, path, search)
						 : read_head(&h, folder, path);
	for (unsigned i = 0; found && i < SCRIPT_DEPTH && is_script(&h, interpreter); i++) {
		sys_close(h.fd);
		found = read_head(&h, SYS_NO_FOLDER, interpreter);
	}
	*f = (struct heft_file){found ? kind_of(&h) : HEFT_FILE_TAKES, !found || h.privileged,
				found ? h.fd : -1};
	if (f->fd < 0 || (h.count >= SELFMAG && !memcmp(h.bytes, ELFMAG, SELFMAG)))
		return;
	sys_close(f->fd);
	f->fd = -1;
}
