/* What a fuzz target does without libFuzzer: runs over the files and folders given, and over
 * damaged copies of each. Include it after LLVMFuzzerTestOneInput. */
#ifndef HEFT_TESTS_FUZZ_CORPUS_H
#define HEFT_TESTS_FUZZ_CORPUS_H

#ifndef HEFT_LIBFUZZER
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FUZZ_LARGEST = 1 << 16, FUZZ_DAMAGED = 400 };

static unsigned fuzz_run_file(const char *path)
{
	static uint8_t data[FUZZ_LARGEST], bad[FUZZ_LARGEST];
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(data, 1, sizeof data, f) : 0;
	if (!f)
		return 0;
	fclose(f);
	LLVMFuzzerTestOneInput(data, n);
	uint64_t rng = 7;
	for (int i = 0; i < FUZZ_DAMAGED && n; i++) { /* a few bytes wrong, cut somewhere */
		memcpy(bad, data, n);
		for (int k = 0; k < 3; k++) {
			rng = rng * 6364136223846793005ull + 1442695040888963407ull;
			bad[(rng >> 33) % n] ^= (uint8_t)(rng >> 20 | 1);
		}
		LLVMFuzzerTestOneInput(bad, i % 4 ? n : (rng >> 33) % n);
	}
	return 1;
}

int main(int argc, char **argv)
{
	unsigned ran = 0;
	for (int i = 1; i < argc; i++) {
		struct stat st;
		if (!stat(argv[i], &st) && !S_ISDIR(st.st_mode)) {
			ran += fuzz_run_file(argv[i]);
			continue;
		}
		DIR *d = opendir(argv[i]);
		struct dirent *e;
		while (d && (e = readdir(d))) {
			char path[4096];
			snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
			if (e->d_name[0] != '.')
				ran += fuzz_run_file(path);
		}
		if (d)
			closedir(d);
	}
	printf("%u files\n", ran);
	return ran ? 0 : 1; /* an empty corpus proves nothing */
}
#endif

#endif
