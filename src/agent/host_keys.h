/* The keys of an OpenSSH server. A clone that kept them could be taken for the sandbox it was cloned
 * from, so it gets new ones, as a cloud's new instance does. Whose a key is says the comment of its
 * public half, as ssh-keygen writes it: root@HOST. */
#ifndef AGENT_HOST_KEYS_H
#define AGENT_HOST_KEYS_H

#include <stdbool.h>

enum { HOST_KEYS_LIMIT_MS = 30 * 1000 };

struct host_keys {
	bool changed; /* some were removed */
	int problem;  /* errno: why one of them could not be made again and is missing; or 0 */
};

/* Removes each ssh_host_TYPE_key in the directory that is not of the host name which the kernel has, and
 * has ssh-keygen make another. Waits for that: milliseconds, for an RSA key up to a second, at most
 * HOST_KEYS_LIMIT_MS in all. 0, or -errno when one could not be removed. */
int host_keys_renew(int dirfd, struct host_keys *ret);

/* Has the server whose process id is in this file, if there is one, read its keys anew. */
void host_keys_reload(const char *pid_path);

#endif
