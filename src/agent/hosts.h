/* /etc/hosts: the line of the guest's own name, "127.0.1.1 NAME", so that the name resolves. */
#ifndef AGENT_HOSTS_H
#define AGENT_HOSTS_H

enum { HOSTS_MAX = 8192 }; /* bytes of a file that is changed */

/* Puts the new name in the place of the old one's line; without such a line, at the end. fd can be
 * read and written. 0, -EFBIG: it is larger than HOSTS_MAX, -EINVAL: it is no text, or another
 * error: then the file is as it was, or the line is cut. */
int hosts_rename(int fd, const char *from, const char *to);

#endif
