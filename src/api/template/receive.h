/* Receives a request's body into a client's file (catalog/uploads.h). The file is written in
 * workers; meanwhile the client waits. */
#ifndef API_RECEIVE_H
#define API_RECEIVE_H

struct request;
struct upload;

struct receive_ops {
	/* The file is in place: answers. Not called when the client has gone, or was answered
	 * because of an error. */
	void (*received)(struct request *r, void *arg);
	void (*drop)(void *arg); /* once, after that; or NULL */
};

/* Takes ownership of upload; r has a Content-Length, which it was begun with. */
void receive_upload(
	struct request *r, struct upload *upload, const struct receive_ops *ops, void *arg);

#endif
