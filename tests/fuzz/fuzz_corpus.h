/* What a fuzz target does without libFuzzer: it runs over the files and folders given, and over damaged
 * copies of each. Include it after LLVMFuzzerTestOneInput. A target that knows which damage is likely
 * defines FUZZ_OWN_DAMAGE and fuzz_damage() before that; one with a main() of its own defines
 * FUZZ_OWN_MAIN. */
#ifndef HEFT_TESTS_FUZZ_CORPUS_H
#define HEFT_TESTS_FUZZ_CORPUS_H

#ifndef HEFT_LIBFUZZER
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef FUZZ_OWN_DAMAGE
enum { FUZZ_DAMAGED = 400 };

/* Runs over copies with a few bytes wrong, some of them cut. The bytes are unchanged afterwards. */
static void fuzz_damage(uint8_t *bytes, size_t size)
{
	uint8_t *bad = malloc(size + 1);
	uint64_t rng = 7;
	for (int i = 0; i < FUZZ_DAMAGED && size && bad; i++) {
		memcpy(bad, bytes, size);
		for (int k = 0; k < 3; k++) {
			rng = rng * 6364136223846793005ull + 1442695040888963407ull;
			bad[(rng >> 33) % size] ^= (uint8_t)(rng >> 20 | 1);
		}
		LLVMFuzzerTestOneInput(bad, i % 4 ? size : (rng >> 33) % size);
	}
	free(bad);
}
#endif

static uint8_t *fuzz_read(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	if (!f || fstat(fileno(f), &st)) {
		perror(path);
		exit(1);
	}
	*size = (size_t)st.st_size;
	uint8_t *bytes = malloc(*size + 1);
	if (!bytes || fread(bytes, 1, *size, f) != *size)
		abort();
	fclose(f);
	return bytes;
}

/* Returns how many files it ran over. */
static unsigned fuzz_run(const char *path)
{
	unsigned files = 0;
	DIR *folder = opendir(path);
	for (struct dirent *e; folder && (e = readdir(folder));) {
		char name[4096];
		snprintf(name, sizeof name, "%s/%s", path, e->d_name);
		if (e->d_name[0] != '.')
			files += fuzz_run(name);
	}
	if (folder) {
		closedir(folder);
		return files;
	}
	size_t size;
	uint8_t *bytes = fuzz_read(path, &size);
	LLVMFuzzerTestOneInput(bytes, size);
	fuzz_damage(bytes, size);
	free(bytes);
	return 1;
}

#ifndef FUZZ_OWN_MAIN
int main(int argc, char **argv)
{
	unsigned files = 0;
	for (int i = 1; i < argc; i++)
		files += fuzz_run(argv[i]);
	printf("%u files\n", files);
	return files ? 0 : 1; /* an empty corpus proves nothing */
}
#endif
#endif

#endif
