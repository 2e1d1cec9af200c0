/* Renews the keys of an OpenSSH server. A clone with the old keys could pass for the sandbox it was
 * cloned from. So it gets new ones, as a new instance in a cloud does. The comment in the public
 * half names the owner of a key, as ssh-keygen writes it: root@HOST. */
#ifndef AGENT_HOST_KEYS_H
#define AGENT_HOST_KEYS_H

#include <stdbool.h>

enum { HOST_KEYS_LIMIT_MS = 30 * 1000 };

struct host_keys {
	bool changed; /* some keys were removed */
	int problem;  /* errno: why a removed key could not be replaced; or 0 */
};

/* Removes each ssh_host_TYPE_key in the directory that does not belong to the kernel's host name,
 * and makes a new one with ssh-keygen. Waits for that: milliseconds, up to a second for an RSA key,
 * at most HOST_KEYS_LIMIT_MS in all. 0, or -errno when a key could not be removed. */
int host_keys_renew(int dirfd, struct host_keys *ret);

/* Makes the server whose process id is in this file, if there is one, read its keys again. */
void host_keys_reload(const char *pid_path);

#endif
