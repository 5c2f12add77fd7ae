/* The settings of this process: HEFT_SESSION, HEFT_FOLLOW, HEFT_SAMPLE, HEFT_DIR and
 * our own entry of LD_PRELOAD, copied from the environment once, before the program
 * can change it.
 *
 * The first call may come before libc has set `environ`. Then /proc/self/environ
 * says the same. */
#include "capture/settings.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct heft_settings heft_settings;

enum { ENVIRON_BYTES = 4 << 20, SAMPLE_DEFAULT = 512 << 10 };
#define SAMPLE_LIMIT (1ull << 40)
#define PRELOAD "LD_PRELOAD="

static const char *env_value(char *const *env, const char *name)
{
	size_t n = strlen(name);
	for (; env && *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* A text that does not fit is left out. */
static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = strnlen(from, size);
	if (n < size)
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

/* Cuts our entry out of "LD_PRELOAD=...". Returns whether another one is left. */
static int cut_own_entry(char *variable)
{
	const char *at;
	char *list = variable + sizeof PRELOAD - 1;
	size_t n = own_entry(list, &at);
	if (!n)
		return 1;
	char *cut = list + (at - list), *rest = cut + n + (cut[n] != 0);
	memmove(cut, rest, strlen(rest) + 1);
	size_t left = strlen(list);
	if (left && (list[left - 1] == ':' || list[left - 1] == ' '))
		list[left - 1] = 0;
	return *list != 0;
}

static int is_variable(const char *entry, const char *name)
{
	size_t n = strlen(name);
	return !strncmp(entry, name, n) && entry[n] == '=';
}

void heft_settings_remove(char **env)
{
	char **to = env;
	for (char **e = env; *e; e++) {
		if (is_variable(*e, WIRE_ENV_SESSION) || is_variable(*e, WIRE_ENV_FOLLOW) ||
		    is_variable(*e, WIRE_ENV_SAMPLE))
			continue;
		if (is_variable(*e, "LD_PRELOAD") && !cut_own_entry(*e))
			continue;
		*to++ = *e;
	}
	*to = NULL;
}

/* "524288", "512k", "1M", "1G", "auto", "off". Anything else stands for the default. */
static void take_sample(struct heft_settings *s, const char *text)
{
	uint64_t bytes = 0;
	copy_text(s->sample_text, sizeof s->sample_text, text);
	s->sample_off = !strcmp(text, "off") || !strcmp(text, "0");
	s->sample_auto = !strcmp(text, "auto");
	for (; *text >= '0' && *text <= '9' && bytes < SAMPLE_LIMIT; text++)
		bytes = bytes * 10 + (uint64_t)(*text - '0');
	unsigned unit = *text == 'k' || *text == 'K' ? 10
			: *text == 'M'               ? 20
			: *text == 'G'               ? 30
						     : 0;
	bytes <<= unit;
	s->sample_bytes = bytes && bytes < SAMPLE_LIMIT ? bytes : SAMPLE_DEFAULT;
}

static void take_environment(struct heft_settings *s, char *const *env)
{
	const char *dir = env_value(env, WIRE_ENV_SESSION);
	const char *agent_dir = env_value(env, WIRE_ENV_DIR);
	const char *follow = env_value(env, WIRE_ENV_FOLLOW);
	const char *preload = env_value(env, "LD_PRELOAD");
	const char *sample = env_value(env, WIRE_ENV_SAMPLE);
	const char *at;
	size_t n = preload ? own_entry(preload, &at) : 0;
	if (sample && *sample)
		take_sample(s, sample);
	if (n && n < sizeof s->preload_path)
		memcpy(s->preload_path, at, n);
	if (dir)
		copy_text(s->session_dir, sizeof s->session_dir, dir);
	else if (s->sample_bytes) {
		/* The process samples itself for an agent, which may come later. Environments that the
		 * program makes for other programs stay as they are: nobody asked for those. */
		copy_text(s->session_dir, sizeof s->session_dir,
			  agent_dir && *agent_dir == '/' ? agent_dir : WIRE_AGENT_DIR);
		s->preload_path[0] = 0;
	}
	s->follow_none = follow && !strcmp(follow, "none");
}

/* Reads all of it: our variables may be the last. */
static size_t read_environ(char *to, size_t size)
{
	size_t n = 0;
	long got = 0;
	int fd = sys_open("/proc/self/environ", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	while (n < size && (got = sys_read(fd, to + n, size - n)) > 0)
		n += (size_t)got;
	sys_close(fd);
	return n;
}

static void take_kernels_environment(struct heft_settings *s)
{
	char *ours[8] = {0};
	char *text = sys_mmap(NULL, ENVIRON_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (!text)
		return;
	size_t n = read_environ(text, ENVIRON_BYTES - 1);
	unsigned count = 0;
	for (size_t i = 0; i < n && count < 7; i += strlen(text + i) + 1)
		if (!strncmp(text + i, "HEFT_", 5) || is_variable(text + i, "LD_PRELOAD"))
			ours[count++] = text + i;
	take_environment(s, ours);
	sys_munmap(text, ENVIRON_BYTES);
}

void heft_settings_read(void)
{
	static _Atomic int begun;
	struct heft_settings *s = &heft_settings;
	int never = 0;
	if (!atomic_compare_exchange_strong(&begun, &never, 1))
		return;
	if (environ)
		take_environment(s, environ);
	else
		take_kernels_environment(s);
	long n = sys_readlink("/proc/self/exe", s->exe, sizeof s->exe - 1);
	if (n < 0)
		s->exe[0] = 0;
}
