/* How a process is jailed. */
#ifndef JAIL_KIND_H
#define JAIL_KIND_H

enum jail_kind {
	JAIL_OFF,  /* no namespaces. Rights, limits and descriptors are taken away all the same */
	JAIL_USER, /* namespaces and an empty root, as the user that started it */
	JAIL_FULL, /* the same, and each process has a user and group of its own */
};

/* "off", "user" or "full": for --json, metrics and the wire. */
const char *jail_kind_name(enum jail_kind kind);

/* Returns the kind or -EINVAL. */
int jail_kind_parse(const char *name);

#endif
