/* A listening socket on the loop that accepts its clients itself.
 *
 * libuv's own listening streams call accept() until nobody waits. Without a free descriptor they
 * never return to the loop, though the work that would free one needs it. A listener pauses
 * instead, and tries again. */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

enum {
	LISTENER_BACKLOG = 1024,
	LISTENER_BATCH = 64,	/* clients accepted in one turn of the loop */
	LISTENER_PAUSE_MS = 10, /* after a failure such as EMFILE */
};

struct listener;

/* fd: the client's socket, non-blocking, now the callee's; or -errno after a failure. */
typedef void listener_fn(struct listener *l, int fd);

struct listener {
	uv_poll_t poll;
	uv_timer_t pause;
	listener_fn *accepted;
	void *data; /* the owner's */
	int fd;	    /* -1: not open */
};

/* Sockets that listen: bound, non-blocking. The Unix one is for its owner only, and replaces a
 * stale file. Both return a descriptor or -errno. */
int listener_tcp(const struct sockaddr_storage *a);
int listener_unix(const char *path);

/* Serves fd (one of the above; taken, even on failure) until listener_close(). l->data is the
 * caller's to set. Returns 0 or -errno. */
int listener_start(struct listener *l, uv_loop_t *loop, int fd, listener_fn *accepted);
/* The port in use, 0 for a Unix socket. */
uint16_t listener_port(const struct listener *l);
/* No-op when it is not open. The handles' memory must stay until the loop has run. */
void listener_close(struct listener *l);

#endif
