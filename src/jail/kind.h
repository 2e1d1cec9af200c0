/* How a process is jailed. */
#ifndef JAIL_KIND_H
#define JAIL_KIND_H

enum jail_kind {
	JAIL_OFF,  /* no namespaces; but rights, limits and descriptors as in the others */
	JAIL_USER, /* namespaces and an empty root; runs as the user that started Mayfly */
	JAIL_FULL, /* the same, but each process has its own user and group */
};

/* Where a launcher's processes run (space.h). */
enum jail_place {
	JAIL_PLACE_NONE,    /* in the host's namespaces: JAIL_OFF */
	JAIL_PLACE_EMPTY,   /* in namespaces that contain nothing */
	JAIL_PLACE_NETWORK, /* the same, but with the host's network */
	JAIL_PLACES_
};

/* "off", "on" or "network": the launcher's argument. */
const char *jail_place_name(enum jail_place place);

/* Returns the place or -EINVAL. */
int jail_place_parse(const char *name);

/* "off", "user" or "full": for --json, metrics and the wire. */
const char *jail_kind_name(enum jail_kind kind);

/* Returns the kind or -EINVAL. */
int jail_kind_parse(const char *name);

#endif
