/* Fuzzes what a request says about its sender (Host, Origin, credentials) and an address to listen
 * on: any text, each in memory of exactly its size. */
#include "http/http_parts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_own_names own = {.address = "192.0.2.1", .machine = "box", .any = size & 1};
	char *text = malloc(size + 1), *password = malloc(size + 1);
	const char *address;
	uint16_t port;
	if (!text || !password)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	http_host_is_own(&own, text);
	if (http_origin_is_own(&own, text, text)) /* an origin has more than a host */
		abort();
	own.further = text;
	http_host_is_own(&own, "heft.example:80");
	http_origin_is_own(&own, "https://heft.example", "127.0.0.1");
	for (size_t room = 0; room <= size + 1; room = room * 2 + 1)
		if (http_basic_password(text, password, room) && strlen(password) >= room)
			abort();
	if (http_token_equal("secret", text) != (strcmp(text, "secret") == 0))
		abort();
	if (http_parse_listen(text, &address, &port) == 0 && address && !*address)
		abort(); /* an address is never empty */
	free(password);
	free(text);
	return 0;
}

#include "fuzz_corpus.h"
