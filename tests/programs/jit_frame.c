/* Makes a function at run time that calls malloc(6363), calls it, and says where it is in a perf
 * map, as a JIT compiler does. An argument is the name to write; without one nothing is written. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	/* push rbp; mov rbp, rsp; mov edi, 6363; movabs rax, malloc; call rax; pop rbp; ret */
	uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xbf, 0xdb, 0x18, 0,    0,    0x48, 0xb8, 0,
			  0,    0,    0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
	void *(*target)(size_t) = malloc;
	memcpy(code + 11, &target, 8);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 1;
	memcpy(page + 256, code, sizeof code);
	if (argc > 1) {
		char path[64];
		snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
		FILE *map = fopen(path, "w");
		if (!map)
			return 1;
		fprintf(map, "%" PRIxPTR " %zx %s\n", (uintptr_t)page + 256, sizeof code, argv[1]);
		fprintf(map, "not a line\n");
		fclose(map);
	}
	void *(*made)(void);
	void *at = page + 256;
	memcpy(&made, &at, sizeof made);
	void *block = made();
	int missing = block == NULL;
	free(block);
	printf("%d\n", (int)getpid());
	return missing;
}
