/* A small HTTP server that serves its own heap profile, as services do that are
 * profiled all the time: the handler asks heft (include/heft.h), and where heft is not
 * there, or switched off, it says so. Requests for /work allocate; one part in a
 * thousand is kept, as in a cache that never forgets.
 *
 *     pprof_server [PORT]        0, the default: any free one; it is printed
 *
 *     heft run --sample build/examples/pprof_server 3000
 *     curl localhost:3000/work?n=100000
 *     curl localhost:3000/debug/pprof/heap > heap.pb.gz
 *     go tool pprof -top heap.pb.gz
 */
#include <heft.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ENTRY_BYTES = 2000, KEEP_EVERY = 1000 };

struct entry {
	struct entry *next;
	char text[ENTRY_BYTES - sizeof(struct entry *)];
};
static struct entry *cache;
static unsigned long served;

static void say(int client, const char *text)
{
	size_t n = strlen(text);
	if (write(client, text, n) != (ssize_t)n)
		fprintf(stderr, "pprof_server: the client went away\n");
}

static void answer(int client, const char *status, const char *text)
{
	char head[256];
	snprintf(head, sizeof head,
		 "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
		 "Connection: close\r\n\r\n",
		 status, strlen(text));
	say(client, head);
	say(client, text);
}

static void remember(struct entry *e)
{
	e->next = cache;
	cache = e;
}

static void work(int client, unsigned long n)
{
	char text[64];
	for (unsigned long i = 0; i < n; i++) {
		struct entry *e = calloc(1, sizeof *e);
		if (!e) {
			answer(client, "503 Service Unavailable", "out of memory\n");
			return;
		}
		if (++served % KEEP_EVERY == 0)
			remember(e);
		else
			free(e);
	}
	snprintf(text, sizeof text, "%lu kept\n", served / KEEP_EVERY);
	answer(client, "200 OK", text);
}

static void serve_heap(int client)
{
	if (!heft_sampling_active()) {
		answer(client, "403 Forbidden",
		       "heap profiling is not active: start this server with heft run --sample, "
		       "or switch it on with heft ctl PID sample=on\n");
		return;
	}
	/* Into memory first: once a 200 is sent, a failure could not be told any more. */
	FILE *f = tmpfile();
	if (!f || heft_pprof_dump(fileno(f))) {
		int why = errno;
		perror("heft_pprof_dump");
		answer(client, "503 Service Unavailable",
		       why == ESRCH ? "no heft run or heft agent is there to make the profile\n"
				    : "the profile could not be made\n");
		if (f)
			fclose(f);
		return;
	}
	char bytes[1 << 16];
	size_t n;
	say(client,
	    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
	    "Content-Disposition: attachment; filename=\"heap\"\r\nConnection: close\r\n\r\n");
	rewind(f);
	while ((n = fread(bytes, 1, sizeof bytes, f)) > 0)
		if (write(client, bytes, n) != (ssize_t)n)
			break;
	fclose(f);
}

/* False: the server is to end. */
static int serve(int client)
{
	char request[2048], path[256] = "";
	unsigned long n = 1000;
	ssize_t got = read(client, request, sizeof request - 1);
	request[got > 0 ? got : 0] = 0;
	if (sscanf(request, "GET %255s", path) != 1)
		answer(client, "400 Bad Request", "GET only\n");
	else if (!strcmp(path, "/debug/pprof/heap") || !strncmp(path, "/debug/pprof/heap?", 18))
		serve_heap(client);
	else if (!strncmp(path, "/work", 5)) {
		sscanf(path, "/work?n=%lu", &n);
		work(client, n);
	} else if (!strcmp(path, "/quit")) {
		answer(client, "200 OK", "bye\n");
		return 0;
	} else
		answer(client, "404 Not Found", "/work?n=N  /debug/pprof/heap  /quit\n");
	return 1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0)),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof at;
	int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	signal(SIGPIPE, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 16) ||
	    getsockname(listener, (struct sockaddr *)&at, &length)) {
		perror("pprof_server");
		return 1;
	}
	printf("http://127.0.0.1:%u/\n", ntohs(at.sin_port));
	fflush(stdout);
	for (int go_on = 1; go_on;) {
		int client = accept(listener, NULL, NULL);
		if (client < 0)
			continue;
		go_on = serve(client);
		close(client);
	}
	while (cache) {
		struct entry *next = cache->next;
		free(cache);
		cache = next;
	}
	return 0;
}
