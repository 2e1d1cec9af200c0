/* The worker's side of its dialler (dialler.h): asks for connections, and about addresses.
 *
 * A question waits for its answer, some 20 us. A dialler that is gone or does not answer within
 * seconds ends the worker, as nothing else can reach the network. */
#ifndef DIALLER_BROKER_H
#define DIALLER_BROKER_H

#include <stdbool.h>
#include <stdint.h>

enum { BROKER_DATAGRAMS = 1, BROKER_STREAM, BROKER_OWN };

/* What both ends send, as one message of SOCK_SEQPACKET. */
struct broker_question {
	uint16_t kind, port;
	uint32_t address;
};

struct broker_answer {
	int32_t result; /* 0, with a descriptor if one was asked for; -errno; 1: own */
};

/* Returns a non-blocking socket, which is connected (datagrams) or connects, or -errno. -EPERM: the
 * address is out of reach. */
int broker_dial(int broker_fd, bool datagrams, uint32_t address, uint16_t port);

/* Takes a connection of the daemon that the dialler has accepted. Returns a non-blocking socket or
 * -errno. */
int broker_take(int clients_fd);

/* As own_is(), from a memory of a second. */
int broker_own(int broker_fd, uint32_t address);

#endif
