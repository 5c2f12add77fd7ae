/* Does what the lines of its standard input say, one after the other, so that a test knows what it
 * has done: "grow N" keeps N KiB more, "churn N" makes and frees N blocks, "say TEXT" and "complain
 * TEXT" write to standard output and error, "exit N" ends it. The end of input ends it too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept {
	struct kept *next;
	char bytes[1024 - sizeof(void *)];
};
static struct kept *all;

__attribute__((noinline)) static void grow(int count)
{
	for (int i = 0; i < count; i++) {
		struct kept *k = malloc(sizeof *k);
		memset(k, 1, sizeof *k);
		k->next = all;
		all = k;
	}
}

__attribute__((noinline)) static void churn(int count)
{
	for (int i = 0; i < count; i++) {
		void *volatile block = malloc(64);
		free(block);
	}
}

int main(void)
{
	char line[256], buffer[4096];
	setvbuf(stdin, buffer, _IOFBF, sizeof buffer); /* no block of its own */
	setvbuf(stdout, NULL, _IONBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		char *rest = strchr(line, ' ');
		if (!rest)
			continue;
		*rest++ = 0;
		if (strcmp(line, "grow") == 0)
			grow(atoi(rest));
		else if (strcmp(line, "churn") == 0)
			churn(atoi(rest));
		else if (strcmp(line, "say") == 0)
			fputs(rest, stdout);
		else if (strcmp(line, "complain") == 0)
			fputs(rest, stderr);
		else if (strcmp(line, "exit") == 0)
			return atoi(rest);
	}
	return 0;
}
