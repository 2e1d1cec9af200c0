/* How a process is jailed. */
#ifndef JAIL_KIND_H
#define JAIL_KIND_H

enum jail_kind {
	JAIL_OFF,  /* no namespaces. Rights, limits and descriptors are taken away all the same */
	JAIL_USER, /* namespaces and an empty root, as the user that started it */
	JAIL_FULL, /* the same, and each process has a user and group of its own */
};

/* What a launcher makes for those that it starts (space.h). */
enum jail_place {
	JAIL_PLACE_NONE,    /* nothing: JAIL_OFF */
	JAIL_PLACE_EMPTY,   /* namespaces that hold nothing */
	JAIL_PLACE_NETWORK, /* the same with the host's network, for those that must dial */
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
