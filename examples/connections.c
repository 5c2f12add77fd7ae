/* 300 connections at 300 KB each: a client object whose constructor makes five buffers, one of
 * them a table of 65,536 packet ids that is hardly ever touched. Variant A takes the table zeroed
 * from calloc (the kernel gives pages only when they are written), variant B fills it.
 *
 * One object: 144*101 + 4*101 + 4*65536 + 144*100 + 10240 = 301,732 bytes in buffers, and 40 for
 * the object itself.
 *
 *     connections [A|B] [COUNT]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conn {
	char *outgoing;	   /* 144 bytes for each of 101 messages in flight */
	uint32_t *pending; /* 101 ids */
	uint32_t *ids;	   /* one entry for every packet id there is */
	char *incoming;	   /* 144 bytes for each of 100 messages */
	char *buffer;
};

static void *checked(void *p)
{
	if (!p) {
		perror("connections");
		exit(1);
	}
	return p;
}

__attribute__((noinline)) static uint32_t *make_id_table(int filled)
{
	size_t size = 65536 * sizeof(uint32_t);

	if (!filled)
		return checked(calloc(65536, sizeof(uint32_t)));
	return memset(checked(malloc(size)), 0xff, size);
}

__attribute__((noinline)) static struct conn *conn_new(int filled)
{
	struct conn *c = checked(malloc(sizeof(*c)));

	c->outgoing = memset(checked(malloc(144 * 101)), 0, 144 * 101);
	c->pending = memset(checked(malloc(4 * 101)), 0, 4 * 101);
	c->ids = make_id_table(filled);
	c->incoming = memset(checked(malloc(144 * 100)), 0, 144 * 100);
	c->buffer = checked(malloc(10240));
	c->buffer[0] = 0;
	return c;
}

static void conn_free(struct conn *c)
{
	free(c->outgoing);
	free(c->pending);
	free(c->ids);
	free(c->incoming);
	free(c->buffer);
	free(c);
}

int main(int argc, char **argv)
{
	char variant = argc > 1 ? argv[1][0] : 'A';
	unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 300;

	if ((variant != 'A' && variant != 'B') || count == 0 || count > 1000000) {
		fprintf(stderr, "usage: connections [A|B] [COUNT]\n");
		return 2;
	}
	struct conn **all = checked(malloc(count * sizeof(*all)));

	for (unsigned long i = 0; i < count; i++)
		all[i] = conn_new(variant == 'B');
	printf("%lu connections open\n", count);
	for (unsigned long i = 0; i < count; i++)
		conn_free(all[i]);
	free(all);
	return 0;
}
