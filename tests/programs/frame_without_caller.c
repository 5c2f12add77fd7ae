/* Makes a function at run time that calls malloc(77) with a frame pointer that leads nowhere: a stack that
 * cannot be followed beyond it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(void)
{
	/* push rbp; mov ebp, 1; mov edi, 77; movabs rax, malloc; call rax; pop rbp; ret */
	uint8_t code[] = {0x55, 0xbd, 1, 0, 0, 0, 0xbf, 77, 0,    0,    0,    0x48, 0xb8,
			  0,    0,    0, 0, 0, 0, 0,    0,  0xff, 0xd0, 0x5d, 0xc3};
	void *(*target)(size_t) = malloc, *(*made)(void), *at;
	memcpy(code + 13, &target, 8);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 1;
	memcpy(at = page + 256, code, sizeof code);
	memcpy(&made, &at, sizeof made);
	free(made());
	return 0;
}
