/* Does a step for each line on stdin: "keep" allocates 1,000,000 bytes and keeps them, "drop" allocates
 * 5,000 and frees them, and says so. Ends with stdin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void *step_keep(void)
{
	return malloc(1000000);
}

__attribute__((noinline)) static void step_drop(void)
{
	void *p = malloc(5000);
	__asm__ volatile("" : : "r"(p) : "memory");
	free(p);
}

int main(void)
{
	char line[100];
	static void *kept[1000];
	unsigned count = 0;
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "keep\n") == 0 && count < 1000)
			kept[count++] = step_keep();
		else
			step_drop();
		__asm__ volatile("" : : "r"(kept) : "memory");
		puts("done");
		fflush(stdout);
	}
	return 0;
}
