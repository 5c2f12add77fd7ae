/* What the kernel and the loader have written down about a process, where everybody finds it. All of it is the
 * program's own to change: it can mislead heft about that program, and nothing else. */
#include "attach/target_links.h"

#include "hosted/proc_text.h"

#include <elf.h>

enum { AUXILIARY_MOST = 64 };

ssize_t target_program(const struct target_modules *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].program)
			return (ssize_t)i;
	return -1;
}

uint64_t target_debug(const struct target_modules *m)
{
	ssize_t program = target_program(m);
	if (program < 0)
		return 0;
	const struct target_image *im = &m->items[program].image;
	for (uint64_t i = 0; i < im->dynamic_bytes / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn d;
		if (!target_modules_memory(m, im->bias + im->dynamic + i * sizeof d, &d,
					   sizeof d) ||
		    d.d_tag == DT_NULL)
			return 0;
		if (d.d_tag == DT_DEBUG)
			return d.d_un.d_ptr;
	}
	return 0;
}

uint64_t target_auxiliary(pid_t pid, uint64_t type)
{
	uint64_t words[AUXILIARY_MOST * 2 + 1] = {0};
	size_t n = proc_text((char *)words, sizeof words, "/proc/%d/auxv", pid) / sizeof *words;
	for (size_t i = 0; i + 1 < n; i += 2)
		if (words[i] == type)
			return words[i + 1];
	return 0;
}
