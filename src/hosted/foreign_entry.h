/* Entries of a directory into which others may put files (a session directory, /tmp), or whose files are theirs: looking at
 * one and opening it never waits.
 *
 * Whoever owns a file can mount a file system on it (fusermount lets every user do that, and others enter it where
 * /etc/fuse.conf has user_allow_other), and a file system of a program answers stat and open when that program likes, or
 * never: not even SIGKILL ends that. So nothing here goes into another file system. Links are not followed either. */
#ifndef HEFT_HOSTED_FOREIGN_ENTRY_H
#define HEFT_HOSTED_FOREIGN_ENTRY_H

#include <stdbool.h>
#include <sys/stat.h>

/* What stat says of kind, owner, size, blocks, number of links, device, inode and times. False: it is not there, or something is
 * mounted there. */
bool foreign_entry_stat(int dirfd, const char *name, struct stat *st);
/* Opens it; access is O_RDWR or O_RDONLY. The descriptor; -1: errno says why, EWOULDBLOCK if somebody has a lease on it. */
int foreign_entry_open(int dirfd, const char *name, int access);

#endif
