/* The one place that names the modules behind the daemon's surfaces. */
#ifndef DAEMON_SURFACES_H
#define DAEMON_SURFACES_H

struct daemon;

/* Fills in who answers for sandboxes (daemon.h), before anything is served. */
void surfaces_register(struct daemon *d);

#endif
