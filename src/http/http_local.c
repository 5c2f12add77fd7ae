/* A Unix socket beside the port: whoever connects is known by the kernel's word (SO_PEERCRED), not by a
 * secret. So everybody may connect, and sees what belongs to its own user.
 *
 * A socket that an earlier server left behind is replaced. One that is answered, and any other file, stays:
 * it belongs to somebody. The path may lie in a directory where others write, so nothing here follows a
 * link. */
#include "http/http_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Whether every user id of the machine is one here. In a user namespace it is not: the kernel then gives
 * one and the same id to all strangers. */
static bool knows_all_users(void)
{
	unsigned first = 1, outside = 1, count = 0;
	FILE *map = fopen("/proc/self/uid_map", "re");
	if (!map)
		return true; /* a kernel without user namespaces */
	bool whole = fscanf(map, "%u %u %u", &first, &outside, &count) == 3 && first == 0 &&
		     count == UINT32_MAX;
	fclose(map);
	return whole;
}

static uint32_t stranger_uid(void)
{
	unsigned uid = 65534;
	FILE *in = fopen("/proc/sys/kernel/overflowuid", "re");
	if (in && fscanf(in, "%u", &uid) != 1)
		uid = 65534;
	if (in)
		fclose(in);
	return uid;
}

/* Whether there is a socket at the path that no server answers. */
static bool is_dead(const char *path, const struct sockaddr_un *at)
{
	struct stat st;
	if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = fd < 0 ? 0 : connect(fd, (const struct sockaddr *)at, sizeof *at);
	bool dead = rc < 0 && errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return dead;
}

static int make_room(const char *path, const struct sockaddr_un *at, struct heft_error *err)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return 0; /* bind says what is wrong */
	if (!S_ISSOCK(st.st_mode))
		return heft_fail(err, HEFT_EREFUSED,
				 "%s exists and is not a socket\ngive --socket another path", path);
	if (!is_dead(path, at))
		return heft_fail(err, HEFT_EIO,
				 "the socket %s is used by another program\n"
				 "give --socket another path",
				 path);
	if (unlink(path) < 0)
		return heft_fail_errno(err, "cannot remove the old socket %s", path);
	return 0;
}

static bool set_path(struct sockaddr_un *at, const char *path)
{
	*at = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!*path || strlen(path) >= sizeof at->sun_path)
		return false;
	strcpy(at->sun_path, path);
	return true;
}

void http_remove_socket(const char *path)
{
	struct sockaddr_un at;
	if (set_path(&at, path) && is_dead(path, &at))
		unlink(path);
}

static int bind_local(const char *path, const struct sockaddr_un *at, struct heft_error *err)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return heft_fail_errno(err, "cannot make the socket %s", path);
	if (bind(fd, (const struct sockaddr *)at, sizeof *at) < 0 ||
	    fchmodat(AT_FDCWD, path, 0666, AT_SYMLINK_NOFOLLOW) < 0 || listen(fd, 1024) < 0) {
		int rc = heft_fail_errno(err, "cannot listen on the socket %s", path);
		close(fd);
		return rc;
	}
	return fd;
}

int http_listen_local(const char *path, struct http_local *l, struct heft_error *err)
{
	struct sockaddr_un at;
	if (!set_path(&at, path))
		return heft_fail(err, HEFT_EUSAGE, "the path of a socket has 1 to %zu characters",
				 sizeof at.sun_path - 1);
	int rc = make_room(path, &at, err);
	if (rc < 0)
		return rc;
	l->has_stranger = !knows_all_users();
	l->stranger = stranger_uid();
	return bind_local(path, &at, err);
}

void http_peer_viewer(const struct http_local *l, int fd, struct http_viewer *viewer)
{
	struct ucred peer;
	socklen_t length = sizeof peer;
	*viewer = (struct http_viewer){0};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 || length != sizeof peer)
		return;
	if (peer.uid == UINT32_MAX || (l->has_stranger && peer.uid == l->stranger))
		return;
	*viewer = (struct http_viewer){peer.uid == 0 ? HTTP_SEES_ALL : HTTP_SEES_UID, peer.uid,
				       true};
}
