/* Checks the names that a request may use for this server, and reads passwords and addresses to listen on.
 *
 * A foreign page, opened in a browser on this machine, can send requests to loopback. It can read the
 * answers only if its own name is made to point here (DNS rebinding); then Host has that name. So Host must
 * be an address or a name of this server. Its port does not matter and may be that of a tunnel. Origin must
 * be exactly what Host says: another port is the page of another server. Behind a proxy it may be one of the names
 * that the server was given.
 *
 * All input comes from strangers: no function writes outside the buffers it was given. */
#include "http/http_parts.h"

#include "hosted/number_parse.h"

#include <arpa/inet.h>
#include <string.h>

/* Takes the name, without brackets, from "name", "name:port" or "[v6]:port". */
static bool host_name(const char *host, char *name, size_t size)
{
	const char *end, *port;
	if (*host == '[') {
		end = strchr(++host, ']');
		if (!end)
			return false;
		port = end + 1;
	} else {
		end = port = host + strcspn(host, ":");
	}
	if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")]))
		return false;
	size_t length = (size_t)(end - host);
	if (!length || length >= size)
		return false;
	memcpy(name, host, length);
	name[length] = 0;
	return true;
}

static bool is_number(const char *name)
{
	struct in6_addr any;
	return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

/* Whether the list has the name: "heft.example,localhost". */
static bool in_names(const char *list, const char *name)
{
	size_t length = strlen(name);
	while (list && *list) {
		size_t item = strcspn(list, ",");
		if (item == length && strncasecmp(list, name, item) == 0)
			return true;
		list += item + (list[item] == ',');
	}
	return false;
}

bool http_host_is_own(const struct http_own_names *own, const char *host)
{
	char name[256];
	if (!host_name(host, name, sizeof name))
		return false;
	if (strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
	    strcmp(name, "::1") == 0 || strcasecmp(name, own->address) == 0 ||
	    in_names(own->further, name))
		return true;
	return own->any && (is_number(name) || strcasecmp(name, own->machine) == 0);
}

bool http_origin_is_own(const struct http_own_names *own, const char *origin, const char *host)
{
	char name[256];
	if (strncmp(origin, "http://", 7) == 0)
		origin += 7;
	else if (strncmp(origin, "https://", 8) == 0)
		origin += 8;
	else
		return false;
	if (host && strcasecmp(origin, host) == 0)
		return true;
	return host_name(origin, name, sizeof name) && in_names(own->further, name);
}

static int base64_digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

bool http_basic_password(const char *header, char *password, size_t size)
{
	if (strncasecmp(header, "Basic ", 6) != 0)
		return false;
	header += 6;
	header += strspn(header, " ");
	uint32_t bits = 0, have = 0;
	bool behind_name = false;
	size_t length = 0;
	for (; *header && *header != '='; header++) {
		int digit = base64_digit(*header);
		if (digit < 0)
			return false;
		bits = (bits << 6 | (uint32_t)digit) & 0xffff;
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		char c = (char)(bits >> have);
		if (!behind_name) {
			behind_name = c == ':';
			continue;
		}
		if (!c || length + 1 >= size)
			return false;
		password[length++] = c;
	}
	if (size)
		password[length] = 0;
	return behind_name && size;
}

static bool parse_port(const char *text, uint16_t *port)
{
	uint64_t number = 0;
	bool valid = strlen(text) <= 5 && number_parse(text, UINT16_MAX, &number) == 0;
	*port = (uint16_t)number;
	return valid;
}

int http_parse_listen(char *text, const char **address, uint16_t *port)
{
	char *colon = strrchr(text, ':'), *end;
	*address = NULL;
	if (!colon)
		return parse_port(text, port) ? 0 : HEFT_EUSAGE;
	if (!parse_port(colon + 1, port))
		return HEFT_EUSAGE;
	*colon = 0;
	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end || end[1])
			return HEFT_EUSAGE;
		*end = 0;
		*address = text;
		return is_number(text) ? 0 : HEFT_EUSAGE;
	}
	if (strchr(text, ':')) /* IPv6 needs brackets, to show where the port begins */
		return HEFT_EUSAGE;
	*address = *text ? text : NULL;
	return 0;
}
