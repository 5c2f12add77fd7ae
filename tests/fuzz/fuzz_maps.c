/* Fuzzes /proc/PID/maps: the kernel writes it, but a process chooses the names, and may change what is mapped while it
 * is read. What comes out is in order and does not overlap, and every mapping is found. Without libFuzzer: runs over the
 * files and folders given, and over damaged copies of each. */
#include "attach/target_maps.h"
#include "hosted/error.h"
#include "session/mappings.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

enum { LARGEST = 1 << 15 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_list(char *text)
{
	struct target_maps maps = {0};
	struct heft_error err;
	if (target_maps_parse(&maps, text, &err))
		abort();
	for (size_t i = 0; i < maps.count; i++) {
		const struct target_mapping *m = &maps.items[i];
		if (m->start >= m->end || (i && m->start < maps.items[i - 1].end) ||
		    target_maps_find(&maps, m->start) != m ||
		    target_maps_find(&maps, m->end - 1) != m || strlen(m->name) > LARGEST)
			abort();
	}
	target_maps_fini(&maps);
}

static void look(char *text, size_t size)
{
	const struct stat file = {.st_dev = makedev(0, 24), .st_ino = 1234};
	FILE *in = fmemopen(text, size, "r");
	char line[64];
	struct mapping m;
	if (!in)
		abort();
	enum mappings_answer answer = mappings_look_in_text(in, &file);
	if (answer == MAPPINGS_HAVE && !memmem(text, size, "1234", 4))
		abort();
	rewind(in);
	while (mappings_line(in, line, sizeof line))
		if (mappings_parse(line, &m) && (m.path <= 0 || (size_t)m.path > strlen(line)))
			abort();
	fclose(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > LARGEST)
		return 0;
	char *text = malloc(size + 1);
	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	look(text, size);
	read_list(text);
	free(text);
	return 0;
}

#include "fuzz_corpus.h"
