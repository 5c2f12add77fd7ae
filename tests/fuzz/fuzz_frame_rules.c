/* Fuzzes the rules for frames: the input is a rule file, and what follows its first NUL byte is
 * asked for as function, file and module. Whatever it holds, it is read or refused with a message,
 * and matching ends. Without libFuzzer: runs over the files and folders given, and over damaged
 * copies of each. */
#include "profile/user_frame.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_rules *r;
	struct heft_error err = {0};
	if (size > LARGEST || frame_rules_new(&r) < 0)
		return 0;
	const uint8_t *nul = memchr(data, 0, size);
	size_t rules = nul ? (size_t)(nul - data) : size;
	/* Exact copies, so that one byte too far is noticed. */
	char *text = malloc(rules + 1), *name = malloc(size - rules + 1);
	if (text && name) {
		memcpy(text, data, rules);
		memcpy(name, data + rules, size - rules);
		name[size - rules] = 0;
		for (size_t i = 0; i < size - rules; i++)
			if (!name[i])
				name[i] = 'x';
		int rc = frame_rules_add_text(r, "frames", text, rules, &err);
		if (rc < 0 && (rc != HEFT_EFORMAT || !err.message[0]))
			abort();
		bool folded = frame_rules_fold(r, name, name, name);
		if (rc == 0) { /* the last rule decides, whatever stands before it */
			rc = frame_rules_add_text(r, "all", "!function *", 11, &err);
			if (rc < 0 || frame_rules_fold(r, name, name, name))
				abort();
		}
		(void)folded;
	}
	free(text);
	free(name);
	frame_rules_free(r);
	return 0;
}

#ifndef HEFT_LIBFUZZER
#define FUZZ_OWN_DAMAGE

static void fuzz_damage(uint8_t *bytes, size_t size)
{
	static const char likely[] = "*?\\!\n #/\0a";
	uint32_t seed = 1;
	for (int round = 0; round < 400 && size; round++) {
		uint8_t kept[4];
		size_t at[4];
		for (int i = 0; i < 4; i++) {
			seed = seed * 1664525 + 1013904223;
			at[i] = (seed >> 8) % size;
			kept[i] = bytes[at[i]];
			bytes[at[i]] = seed & 0x80 ? (uint8_t)seed
						   : (uint8_t)likely[seed % (sizeof likely - 1)];
		}
		LLVMFuzzerTestOneInput(bytes, size - (size_t)round % 7 * size / 16);
		for (int i = 4; i-- > 0;)
			bytes[at[i]] = kept[i];
	}
}
#endif

#include "fuzz_corpus.h"
