/* 300 connections at 300 KB each: a client object whose constructor makes five buffers, one of
 * them a table with an entry for each of 65,536 packet ids, of which a connection uses a hundred.
 *   A  takes the table zeroed from calloc: the kernel gives pages only when they are written
 *   B  fills the table: all of it is resident
 *   C  is the way out: a table for the messages that can be in flight
 *
 * One object of A and B: 144*101 + 4*101 + 4*65536 + 144*100 + 10240 = 301,732 bytes in buffers,
 * and 40 for the object itself. One object of C: 301,772 - 4*65536 + 4*101 = 40,032 bytes.
 *
 *     connections [A|B|C] [COUNT]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT = 100, PACKET_IDS = 65536, MESSAGE = 144, WRITE_BUFFER = 10240 };

struct conn {
	char *outgoing;    /* IN_FLIGHT + 1 messages: id 0 is not used */
	uint32_t *pending; /* IN_FLIGHT + 1 ids */
	uint32_t *ids;     /* what is known of a packet id */
	char *incoming;    /* room for IN_FLIGHT messages */
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

__attribute__((noinline)) static uint32_t *make_id_table(char variant)
{
	const size_t size = PACKET_IDS * sizeof(uint32_t);

	if (variant == 'B')
		return memset(checked(malloc(size)), 0xff, size);
	return checked(calloc(variant == 'A' ? PACKET_IDS : IN_FLIGHT + 1, sizeof(uint32_t)));
}

__attribute__((noinline)) static struct conn *conn_new(char variant)
{
	const size_t out_size = MESSAGE * (IN_FLIGHT + 1), id_size = 4 * (IN_FLIGHT + 1);
	struct conn *c = checked(malloc(sizeof(*c)));

	c->outgoing = memset(checked(malloc(out_size)), 0, out_size);
	c->pending = memset(checked(malloc(id_size)), 0, id_size);
	c->ids = make_id_table(variant);
	c->incoming = checked(malloc(MESSAGE * IN_FLIGHT));
	c->buffer = checked(malloc(WRITE_BUFFER));
	c->incoming[0] = c->buffer[0] = 0; /* the rest comes with the traffic */
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

	if (argc > 3 || variant < 'A' || variant > 'C' || count == 0 || count > 1000000) {
		fprintf(stderr, "usage: connections [A|B|C] [COUNT]\n");
		return 2;
	}
	struct conn **all = checked(malloc(count * sizeof(*all)));

	for (unsigned long i = 0; i < count; i++)
		all[i] = conn_new(variant);
	printf("%lu connections open\n", count);
	for (unsigned long i = 0; i < count; i++)
		conn_free(all[i]);
	free(all);
	return 0;
}
