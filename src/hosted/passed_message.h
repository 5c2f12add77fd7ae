/* A message between processes of heft that may carry one descriptor. */
#ifndef HEFT_HOSTED_PASSED_MESSAGE_H
#define HEFT_HOSTED_PASSED_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* fd: what goes with it; -1: nothing. False: the other side is gone, or takes nothing now. */
bool passed_message_send(int socket, const void *bytes, size_t size, int fd);
/* Waits for a message. Returns its size, which may be more than what fits; -1: there is none. *fd: the descriptor that
 * came with it, the caller's to close; -1: none did. */
ssize_t passed_message_receive(int socket, void *bytes, size_t size, int *fd);

#endif
