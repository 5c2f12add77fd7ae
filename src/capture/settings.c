/* The settings of this process: HEFT_SESSION, HEFT_FOLLOW, HEFT_SAMPLE, HEFT_MODE, HEFT_DIR and
 * our own entry of LD_PRELOAD, copied from the environment once, before the program
 * can change it.
 *
 * The first call may come before libc has set `environ`. Then /proc/self/environ
 * says the same.
 *
 * A program with more rights than who started it (setuid, file capabilities) takes nothing from there, as the loader
 * does: it is not recorded. */
#include "capture/settings.h"

#include "capture/around.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct heft_settings heft_settings;

enum { SAMPLE_TEXT_BYTES = 32, ENVIRON_BYTES = 4 << 20, SAMPLE_DEFAULT = 512 << 10 };
#define SAMPLE_LIMIT (1ull << 40)

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

/* "524288", "512k", "1M", "1G", "auto", "off". Anything else stands for the default. */
static void take_sample(struct heft_settings *s, const char *text)
{
	uint64_t bytes = 0;
	copy_text(s->mode_variable, sizeof s->mode_variable, WIRE_ENV_SAMPLE "=");
	copy_text(s->mode_variable + sizeof WIRE_ENV_SAMPLE, SAMPLE_TEXT_BYTES, text);
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
	const char *mode = env_value(env, WIRE_ENV_MODE);
	const char *at;
	s->counts = mode && !strcmp(mode, "count");
	if (s->counts)
		copy_text(s->mode_variable, sizeof s->mode_variable, WIRE_ENV_MODE "=count");
	s->mempools = mode && !strcmp(mode, "mempools") && !(sample && *sample);
	if (s->mempools)
		copy_text(s->mode_variable, sizeof s->mode_variable, WIRE_ENV_MODE "=mempools");
	size_t n = preload ? heft_own_entry(preload, &at) : 0;
	if (sample && *sample && !s->counts)
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
		if (!strncmp(text + i, "HEFT_", 5) || heft_is_variable(text + i, "LD_PRELOAD"))
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
	if (heft_auxiliary(AT_SECURE))
		; /* a setuid program: who started it must not choose where it makes files */
	else if (environ)
		take_environment(s, environ);
	else
		take_kernels_environment(s);
	long n = sys_readlink("/proc/self/exe", s->exe, sizeof s->exe - 1);
	if (n < 0)
		s->exe[0] = 0;
}
