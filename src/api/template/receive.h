/* Receives a request's body into a client's file (catalog/uploads.h). The file is written in
 * workers; meanwhile the client waits. */
#ifndef API_RECEIVE_H
#define API_RECEIVE_H

struct request;
struct upload;

struct receive_ops {
	/* The file is in place; answers the request. Not called if the client has gone, or if an
	 * error was answered. */
	void (*received)(struct request *r, void *arg);
	void (*drop)(void *arg); /* frees arg: called once, last; or NULL */
};

/* Takes ownership of upload, which was begun with r's Content-Length. */
void receive_upload(
	struct request *r, struct upload *upload, const struct receive_ops *ops, void *arg);

#endif
