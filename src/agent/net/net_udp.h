/* Datagrams of the guest's programs. All of them go as records through one stream to the host,
 * which the first datagram opens. The agent sends answers through a raw socket, with the address
 * that the program wrote to as their source. So it need not bind a socket to that address, which
 * might keep a program from binding it.
 *
 * What does not fit in the buffers is dropped. If this sandbox has no network, programs with a
 * connected socket get ENETUNREACH. */
#ifndef AGENT_NET_UDP_H
#define AGENT_NET_UDP_H

/* Receives from the socket of net_lookup_open from now on; takes it over, also on failure. 0 or
 * -errno. */
int net_udp_open(int relay);

#endif
