/* Datagrams of the guest's programs: all of them are records of one stream to the host, which is
 * made at the first one. Answers are sent by a raw socket from the address that the program wrote
 * to, so no socket is bound to it, where it would be in the way of programs.
 *
 * What does not fit in the buffers is dropped. If this sandbox has no network, programs with a
 * connected socket get ENETUNREACH. */
#ifndef AGENT_NET_UDP_H
#define AGENT_NET_UDP_H

/* Receives from the socket of net_lookup_open from now on; takes it over, also on failure. 0 or
 * -errno. */
int net_udp_open(int relay);

#endif
