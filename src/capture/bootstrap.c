/* From the first call to a running recording: finding the next allocator, and
 * opening this process's file in the session directory.
 *
 * The first allocation may come before any constructor, from the loader, or
 * from dlsym itself while it looks for the allocator. So `heft_next` starts
 * with functions that resolve and then call on; whatever is asked for in the
 * meantime comes from a static arena, whose blocks free and realloc recognise.
 *
 * The process state is in memory that a fork wipes. A child that finds it blank
 * opens a file of its own, over the parent's mapping at the same address, so
 * that nothing of the child can reach the parent's file any more. Files are
 * opened here only; after that the inside works on memory alone. */
#include "capture/inside.h"
#include "capture/redirect.h"
#include "capture/sample.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct heft_process *heft_process;
unsigned char heft_arena[HEFT_ARENA_BYTES] __attribute__((aligned(64)));
char heft_session_dir[512];
char heft_preload_path[512];
char heft_exe[4096];
int heft_follow = 1;
char heft_sample_setting[32];
static uint64_t sample_bytes; /* WIRE_ENV_SAMPLE; 0: exact */
static int sample_off, sample_auto;

union heft_unusual heft_unusual;
static _Atomic int resolving; /* 0 not begun, 1 under way, 2 done */
static _Atomic int configured;
void *heft_mapped;
static int last_pid;	/* who opened a file in this image last: in a forked child, its parent */
static int own_malloc;

/* ---- the arena */

static void *arena_alloc(size_t size, size_t alignment)
{
	if (size > HEFT_ARENA_BYTES / 2 || alignment > 4096)
		goto no;
	if (alignment < 16)
		alignment = 16;
	uint32_t need = (uint32_t)(size + alignment + 32);
	uint32_t at = atomic_fetch_add(&heft_unusual.arena_used, need);
	if (at > HEFT_ARENA_BYTES - need)
		goto no;
	uintptr_t p = ((uintptr_t)heft_arena + at + 16 + alignment - 1) & ~(uintptr_t)(alignment - 1);
	((size_t *)p)[-1] = size;
	heft_filter_keep((void *)p);
	return (void *)p;
no:
	errno = ENOMEM;
	return NULL;
}

/* ---- until the next allocator is known */

static void *boot_malloc(size_t size)
{
	heft_resolve_next();
	return heft_next.malloc != boot_malloc ? heft_next.malloc(size) : arena_alloc(size, 16);
}
static void *boot_calloc(size_t n, size_t each)
{
	heft_resolve_next();
	if (heft_next.malloc != boot_malloc)
		return heft_next.calloc(n, each);
	size_t size;
	if (__builtin_mul_overflow(n, each, &size))
		return NULL;
	return arena_alloc(size, 16); /* zero: the arena never gives a byte twice */
}
static void *boot_realloc(void *old, size_t size)
{
	heft_resolve_next();
	if (heft_next.malloc != boot_malloc)
		return heft_next.realloc(old, size);
	void *p = arena_alloc(size, 16);
	if (p && old) {
		size_t had = ((size_t *)old)[-1];
		memcpy(p, old, had < size ? had : size);
	}
	return p;
}
static void boot_free(void *p)
{
	heft_resolve_next();
	if (heft_next.free != boot_free)
		heft_next.free(p);
}
static int boot_posix_memalign(void **out, size_t alignment, size_t size)
{
	heft_resolve_next();
	if (heft_next.malloc != boot_malloc)
		return heft_next.posix_memalign(out, alignment, size);
	void *p = arena_alloc(size, alignment);
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}
static void *boot_aligned_alloc(size_t alignment, size_t size)
{
	heft_resolve_next();
	return heft_next.malloc != boot_malloc ? heft_next.aligned_alloc(alignment, size)
					       : arena_alloc(size, alignment);
}
static void *boot_memalign(size_t alignment, size_t size)
{
	heft_resolve_next();
	return heft_next.malloc != boot_malloc ? heft_next.memalign(alignment, size)
					       : arena_alloc(size, alignment);
}
static void *boot_valloc(size_t size)
{
	heft_resolve_next();
	return heft_next.malloc != boot_malloc ? heft_next.valloc(size) : arena_alloc(size, 4096);
}
static void *boot_pvalloc(size_t size)
{
	heft_resolve_next();
	return heft_next.malloc != boot_malloc ? heft_next.pvalloc(size)
					       : arena_alloc((size + 4095) & ~4095ul, 4096);
}

struct heft_next heft_next = {
	.malloc = boot_malloc,
	.calloc = boot_calloc,
	.realloc = boot_realloc,
	.free = boot_free,
	.posix_memalign = boot_posix_memalign,
	.aligned_alloc = boot_aligned_alloc,
	.memalign = boot_memalign,
	.valloc = boot_valloc,
	.pvalloc = boot_pvalloc,
};

/* An allocator that lacks one of the functions still has to serve it. */
static int no_posix_memalign(void **out, size_t alignment, size_t size)
{
	(void)out, (void)alignment, (void)size;
	return ENOMEM;
}
static void *no_aligned(size_t alignment, size_t size)
{
	(void)alignment, (void)size;
	errno = ENOMEM;
	return NULL;
}
static void *page_aligned(size_t size)
{
	return heft_next.memalign(4096, size);
}
static void *whole_pages(size_t size)
{
	return heft_next.memalign(4096, (size + 4095) & ~4095ul);
}

void *heft_next_symbol(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static const void *object_of(const void *code)
{
	struct dl_find_object o;
	return code && !_dl_find_object((void *)code, &o) ? o.dlfo_link_map : NULL;
}

#define TAKE(field, name, otherwise)                                                               \
	do {                                                                                       \
		__typeof__(next.field) f_ = (__typeof__(next.field))heft_next_symbol(name);        \
		next.field = f_ ? f_ : (otherwise);                                                \
	} while (0)

void heft_resolve_next(void)
{
	int never = 0;
	if (!atomic_compare_exchange_strong(&resolving, &never, 1))
		return;
	int saved = errno;
	struct heft_next next = {0};
	TAKE(malloc, "malloc", NULL);
	TAKE(calloc, "calloc", NULL);
	TAKE(realloc, "realloc", NULL);
	TAKE(free, "free", NULL);
	TAKE(posix_memalign, "posix_memalign", no_posix_memalign);
	TAKE(aligned_alloc, "aligned_alloc", no_aligned);
	TAKE(memalign, "memalign", next.aligned_alloc);
	TAKE(valloc, "valloc", page_aligned);
	TAKE(pvalloc, "pvalloc", whole_pages);
	TAKE(usable, "malloc_usable_size", NULL);
	TAKE(dlclose, "dlclose", NULL);
	TAKE(setname, "pthread_setname_np", NULL);
	/* Another allocator that lacks a function leaves libc's, which knows nothing of its blocks. */
	const void *home = object_of((void *)next.malloc);
	if (object_of((void *)next.usable) != home)
		next.usable = NULL;
	const void *in_libc = heft_next_symbol("gnu_get_libc_version");
	next.is_glibc = next.usable && home == object_of(in_libc);
	if (object_of((void *)next.valloc) != home)
		next.valloc = page_aligned;
	if (object_of((void *)next.pvalloc) != home)
		next.pvalloc = whole_pages;
	own_malloc = heft_redirect_init((void *)next.malloc, in_libc);
	heft_follow_init();
	heft_ends_init();
	heft_commands_init();
	if (next.malloc && next.calloc && next.realloc && next.free)
		heft_next = next;
	errno = saved;
	atomic_store(&resolving, 2);
}

/* ---- what heft run told us */

static const char *env_value(char *const *env, const char *name)
{
	size_t n = strlen(name);
	for (; env && *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

static void take_string(char *to, size_t room, const char *from)
{
	size_t n = strnlen(from, room);
	if (n < room)
		memcpy(to, from, n + 1);
}

/* Finds our own entry in LD_PRELOAD; its length, or 0. Entries are separated by ':' or ' '. */
static size_t own_entry(const char *list, const char **at)
{
	while (*list) {
		size_t n = strcspn(list, ": ");
		size_t name = sizeof WIRE_PRELOAD_NAME - 1;
		if (n >= name && !strncmp(list + n - name, WIRE_PRELOAD_NAME, name)) {
			*at = list;
			return n;
		}
		list += n;
		list += *list != 0;
	}
	return 0;
}

/* --follow=none: children see the environment as it was before heft. */
static void remove_own_entries(char **env)
{
	char **to = env;
	for (char **e = env; *e; e++) {
		if (!strncmp(*e, WIRE_ENV_SESSION "=", sizeof WIRE_ENV_SESSION) ||
		    !strncmp(*e, WIRE_ENV_FOLLOW "=", sizeof WIRE_ENV_FOLLOW) ||
		    !strncmp(*e, WIRE_ENV_SAMPLE "=", sizeof WIRE_ENV_SAMPLE))
			continue;
		if (!strncmp(*e, "LD_PRELOAD=", 11)) {
			const char *at;
			size_t n = own_entry(*e + 11, &at);
			if (n) {
				char *cut = (char *)at;
				char *rest = cut + n + (cut[n] != 0);
				memmove(cut, rest, strlen(rest) + 1);
				size_t left = strlen(*e);
				if (left > 11 && ((*e)[left - 1] == ':' || (*e)[left - 1] == ' '))
					(*e)[left - 1] = 0;
				if (!(*e)[11])
					continue;
			}
		}
		*to++ = *e;
	}
	*to = NULL;
}

/* "524288", "512k", "1M", "1G", "auto", "off"; what is none of these is the default. */
static void take_sample(const char *text)
{
	uint64_t bytes = 0;
	take_string(heft_sample_setting, sizeof heft_sample_setting, text);
	sample_off = !strcmp(text, "off") || !strcmp(text, "0");
	sample_auto = !strcmp(text, "auto");
	for (; *text >= '0' && *text <= '9' && bytes < 1ull << 40; text++)
		bytes = bytes * 10 + (uint64_t)(*text - '0');
	unsigned unit = *text == 'k' || *text == 'K' ? 10 : *text == 'M' ? 20 : *text == 'G' ? 30 : 0;
	bytes <<= unit;
	sample_bytes = bytes && bytes < 1ull << 40 ? bytes : 512 << 10;
}

enum { ENVIRON_BYTES = 4 << 20 };

static void configure(void)
{
	int never = 0;
	if (!atomic_compare_exchange_strong(&configured, &never, 1))
		return;
	/* Before libc has set environ: as the kernel has it, all of it, for ours may stand last. */
	char *raw = NULL, *pointers[8] = {0};
	char **env = environ;
	if (!env) {
		int fd = sys_open("/proc/self/environ", O_RDONLY | O_CLOEXEC, 0);
		raw = sys_mmap(NULL, ENVIRON_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		size_t n = 0;
		long got = 0;
		while (raw && fd >= 0 && n < ENVIRON_BYTES - 1 &&
		       (got = sys_read(fd, raw + n, ENVIRON_BYTES - 1 - n)) > 0)
			n += (size_t)got;
		if (fd >= 0)
			sys_close(fd);
		unsigned count = 0;
		for (size_t i = 0; i < n && count < 7; i += strlen(raw + i) + 1)
			if (!strncmp(raw + i, "HEFT_", 5) || !strncmp(raw + i, "LD_PRELOAD=", 11))
				pointers[count++] = raw + i;
		env = pointers;
	}
	const char *dir = env_value(env, WIRE_ENV_SESSION);
	const char *agent_dir = env_value(env, WIRE_ENV_DIR);
	const char *follow = env_value(env, WIRE_ENV_FOLLOW);
	const char *preload = env_value(env, "LD_PRELOAD");
	const char *sample = env_value(env, WIRE_ENV_SAMPLE);
	if (sample && *sample)
		take_sample(sample);
	const char *at;
	size_t n = preload ? own_entry(preload, &at) : 0;
	if (n && n < sizeof heft_preload_path)
		memcpy(heft_preload_path, at, n);
	if (dir)
		take_string(heft_session_dir, sizeof heft_session_dir, dir);
	else if (sample_bytes) {
		/* For an agent, or for nobody yet. An environment that the program makes for others is
		 * left alone: nobody asked for those. */
		take_string(heft_session_dir, sizeof heft_session_dir,
			    agent_dir && *agent_dir == '/' ? agent_dir : WIRE_AGENT_DIR);
		heft_preload_path[0] = 0;
	}
	if (follow && !strcmp(follow, "none"))
		heft_follow = 0;
	if (raw)
		sys_munmap(raw, ENVIRON_BYTES);
	long len = sys_readlink("/proc/self/exe", heft_exe, sizeof heft_exe - 1);
	if (len < 0)
		heft_exe[0] = 0;
}

/* ---- the session file */

static char *append(char *to, const char *end, const char *text)
{
	while (*text && to < end)
		*to++ = *text++;
	return to;
}

static char *append_hex(char *to, const char *end, uint64_t v)
{
	for (int shift = 60; shift >= 0; shift -= 4)
		if ((v >> shift || shift == 0) && to < end)
			*to++ = "0123456789abcdef"[v >> shift & 15];
	return to;
}

/* exe and arguments, as the kernel has them: the program may change its argv later. */
static void describe(struct wire_header *h)
{
	uint32_t n = (uint32_t)strlen(heft_exe) + 1;
	memcpy(h->text, heft_exe, n);
	int fd = sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	uint32_t start = n;
	while (fd >= 0 && n < WIRE_TEXT_BYTES - 1) {
		long got = sys_read(fd, h->text + n, WIRE_TEXT_BYTES - 1 - n);
		if (got <= 0)
			break;
		n += (uint32_t)got;
	}
	if (fd >= 0)
		sys_close(fd);
	h->text[n] = 0;
	for (uint32_t i = start; i < n; i++)
		h->arg_count += h->text[i] == 0;
	if (n > start && h->text[n - 1]) { /* cut in the middle of an argument */
		n++;
		h->arg_count++;
	}
	h->text_bytes = n;
}

/* A new file of full size at `path`. Where the process may not make one that large (and would get
 * a signal for trying), one that the recorder has ready. */
static int make_file(const char *path)
{
	if (sys_file_size_limit() >= WIRE_FILE_BYTES) {
		int fd = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		int rc = fd < 0 ? fd : sys_ftruncate(fd, WIRE_FILE_BYTES);
		if (fd >= 0 && rc) {
			sys_close(fd);
			sys_unlink(path);
			return rc;
		}
		return fd;
	}
	char spare[600];
	for (uint64_t i = 0; i < WIRE_SPARES; i++) {
		char *to = append(spare, spare + sizeof spare - 1, heft_session_dir);
		to = append(to, spare + sizeof spare - 1, "/" WIRE_SPARE_NAME);
		to = append_hex(to, spare + sizeof spare - 1, i);
		*to = 0;
		if (!sys_rename(spare, path))
			return sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	}
	return -EFBIG;
}

/* A child is sampled as its parent is when it forks: the outside may have switched that. */
static void inherit_switch(struct wire_header *parent)
{
	struct wire_sampling *s = &parent->sampling;
	uint64_t rate = atomic_load(&s->rate_bytes);
	sample_off = !atomic_load(&s->on);
	sample_auto = atomic_load(&s->automatic) != 0;
	if (rate && rate < 1ull << 40)
		sample_bytes = rate;
}

static int open_file(struct heft_process *p)
{
	int pid = sys_getpid();
	int forked = last_pid && last_pid != pid;
	if (!heft_session_dir[0] || (forked && !heft_follow))
		return -1;
	char path[600], *end = path + sizeof path - 1;
	if (forked && heft_mapped) { /* its parent's, until its own takes the place */
		heft_see_siblings(heft_mapped);
		heft_add_sibling(heft_mapped, pid);
		if (sample_bytes)
			inherit_switch(heft_mapped);
	}
	uint64_t now = arch_stamp();
	char *to = append(path, end, heft_session_dir);
	to = append(to, end, "/");
	to = append_hex(to, end, (uint64_t)pid);
	to = append(to, end, ".");
	to = append_hex(to, end, now);
	*to = 0;
	int rc, fd = make_file(path);
	rc = fd;
	if (fd >= 0) {
		void *at = sys_mmap(heft_mapped, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_NORESERVE | (heft_mapped ? MAP_FIXED : 0), fd);
		/* From here on a fork's child no longer follows its parent's gate. */
		if (at && sample_bytes && !sys_mmap(heft_gate_page, HEFT_GATE_PAGE, PROT_READ,
						    MAP_SHARED | MAP_FIXED, fd))
			at = NULL;
		sys_close(fd);
		rc = at ? 0 : -ENOMEM;
		if (at) {
			struct wire_session s = wire_session_at(at);
			heft_mapped = at;
			rc = sys_populate(at, sizeof(struct wire_header));
			if (!rc)
				rc = sys_populate(s.nodes, 2 * HEFT_NODES_A_PAGE * sizeof *s.nodes);
			if (!rc && sample_bytes)
				rc = heft_sample_tables(s.header);
		}
		if (rc)
			sys_unlink(path);
	}
	if (rc < 0) {
		if (forked && heft_mapped) { /* still the parent's pages: leave word there */
			struct wire_header *h = wire_session_at(heft_mapped).header;
			atomic_store(&h->lost_child_errno, (uint32_t)-rc);
			atomic_fetch_add(&h->lost_children, 1);
		}
		return -1;
	}
	p->session = wire_session_at(heft_mapped);
	struct wire_header *h = p->session.header;
	h->version = WIRE_VERSION;
	h->origin = forked ? WIRE_FROM_FORK : WIRE_FROM_EXEC;
	h->pid = pid;
	h->ppid = forked ? last_pid : sys_getppid();
	h->start_tsc = now;
	h->start_mono_ns = sys_clock_ns(CLOCK_MONOTONIC);
	h->start_unix_ns = (int64_t)sys_clock_ns(CLOCK_REALTIME);
	h->start_maxrss_kib = sys_maxrss_kib();
	h->own_malloc = (uint32_t)own_malloc;
	h->usable_known = heft_next.usable != NULL;
	if (sample_bytes) {
		h->mode = WIRE_SAMPLED;
		atomic_store(&h->sampling.rate_bytes, sample_bytes);
		atomic_store(&h->sampling.automatic, (uint32_t)sample_auto);
		atomic_store(&h->sampling.on, !sample_off);
		if (forked)
			heft_sample_begin();
		heft_sampling = 1;
		heft_gate_set(h);
	}
	describe(h);
	/* Node 0 is the root. */
	p->session.nodes[0].check = ~0u;
	atomic_store(&p->session.nodes[0].pc_flags, (uint64_t)WIRE_NODE_PRESENT << WIRE_FLAG_SHIFT);
	atomic_store(&h->node_count, 1);
	atomic_store(&h->state, WIRE_ON);
	atomic_store(&h->magic, WIRE_MAGIC);
	last_pid = pid;
	sys_membarrier(1 << 2); /* REGISTER_GLOBAL_EXPEDITED: see record/drain.c, the watermark */
	return 0;
}

enum { OPEN_SPINS = 100000 };

int heft_process_open(void)
{
	if (atomic_load(&resolving) != 2) {
		heft_resolve_next();
		if (atomic_load(&resolving) != 2)
			return -1; /* called from inside the look-up itself */
	}
	configure();
	struct heft_process *p = heft_process;
	if (!p) {
		p = sys_mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		if (!p)
			return -1;
		sys_madvise(p, sizeof *p, MADV_WIPEONFORK);
		heft_process = p; /* the first call is in a single thread: the constructor's at the latest */
	}
	uint32_t fresh = HEFT_FRESH;
	if (atomic_compare_exchange_strong(&p->phase, &fresh, HEFT_OPENING)) {
		atomic_store(&heft_several, 0); /* a forked child is alone again */
		int rc = open_file(p);
		atomic_store(&p->phase, rc ? HEFT_DISABLED : HEFT_OPEN);
		return rc;
	}
	for (unsigned i = 0; i < OPEN_SPINS && atomic_load(&p->phase) == HEFT_OPENING; i++)
		arch_pause();
	return atomic_load(&p->phase) == HEFT_OPEN ? 0 : -1;
}

/* fork() is told to the outside before it happens, so that a child whose parent ends at once is
 * waited for; the child opens its file right away for the same reason. Other ways to fork are
 * noticed at the child's first event. */
static void before_fork(void)
{
	struct heft_process *p = heft_process;
	if (p && atomic_load(&p->phase) == HEFT_OPEN)
		atomic_fetch_add(&p->session.header->forks, 1);
}

static void in_child(void)
{
	struct heft_tls *tls = &heft_tls;
	uintptr_t guard = tls->guard;
	int saved = errno;
	tls->guard = guard ? guard : (uintptr_t)__builtin_frame_address(0);
	heft_process_open();
	tls->guard = guard;
	errno = saved;
}

/* A program that never allocates, or whose malloc is not ours, is in the recording too. */
__attribute__((constructor)) static void at_start(void)
{
	struct heft_tls *tls = &heft_tls;
	uintptr_t guard = tls->guard;
	int saved = errno;
	tls->guard = guard ? guard : (uintptr_t)__builtin_frame_address(0);
	if (!heft_process_open())
		pthread_atfork(before_fork, NULL, in_child);
	if (!heft_follow && environ)
		remove_own_entries(environ);
	tls->guard = guard;
	errno = saved;
}
