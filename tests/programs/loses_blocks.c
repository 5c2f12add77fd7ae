/* Loses 100 blocks, then waits for input, and loses 50 more: it says "ready" and "lost". Ends when its input does. */
#include <alloca.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 100 };

static __attribute__((noinline)) void lose(int count)
{
	for (int i = 0; i < count; i++) {
		void *volatile p = malloc(BLOCK);
		memset(p, 1, BLOCK);
		p = NULL;
	}
}

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(2);
}

static __attribute__((noinline)) void clean(void)
{
	memset(alloca(32768), 0, 32768); /* what calls have left on the stack */
}

int main(void)
{
	char byte;
	lose(100);
	clean();
	say("ready\n");
	if (read(0, &byte, 1) != 1)
		return 1;
	lose(50);
	clean();
	say("lost\n");
	while (read(0, &byte, 1) == 1)
		;
	return 0;
}
