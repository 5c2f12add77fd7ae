/* An allocator to be preloaded that brings its own strdup and strndup, as mimalloc does: they do not
 * go through malloc. */
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);

void *malloc(size_t size)
{
	return __libc_malloc(size);
}
void *calloc(size_t n, size_t each)
{
	return __libc_calloc(n, each);
}
void *realloc(void *p, size_t size)
{
	return __libc_realloc(p, size);
}
void free(void *p)
{
	__libc_free(p);
}

char *strndup(const char *text, size_t most)
{
	size_t n = strnlen(text, most);
	char *p = __libc_malloc(n + 1);
	if (p) {
		memcpy(p, text, n);
		p[n] = 0;
	}
	return p;
}

char *strdup(const char *text)
{
	return strndup(text, (size_t)-1);
}
