/* The variables of an environment that are heft's: its own, and its entry of LD_PRELOAD. */
#include "capture/settings.h"

#include <string.h>

#define PRELOAD "LD_PRELOAD="

/* Entries are separated by ':' or ' '. */
size_t heft_own_entry(const char *list, const char **at)
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
	size_t n = heft_own_entry(list, &at);
	if (!n)
		return 1;
	char *cut = list + (at - list), *rest = cut + n + (cut[n] != 0);
	memmove(cut, rest, strlen(rest) + 1);
	size_t left = strlen(list);
	if (left && (list[left - 1] == ':' || list[left - 1] == ' '))
		list[left - 1] = 0;
	return *list != 0;
}

int heft_is_variable(const char *entry, const char *name)
{
	size_t n = strlen(name);
	return !strncmp(entry, name, n) && entry[n] == '=';
}

void heft_settings_remove(char **env)
{
	char **to = env;
	for (char **e = env; *e; e++) {
		if (heft_is_variable(*e, WIRE_ENV_SESSION) ||
		    heft_is_variable(*e, WIRE_ENV_FOLLOW) ||
		    heft_is_variable(*e, WIRE_ENV_SAMPLE) || heft_is_variable(*e, WIRE_ENV_MODE))
			continue;
		if (heft_is_variable(*e, "LD_PRELOAD") && !cut_own_entry(*e))
			continue;
		*to++ = *e;
	}
	*to = NULL;
}
