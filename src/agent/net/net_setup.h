/* The guest's interface and route: what a program finds when it looks for a network.
 *
 * eth0 is a dummy device with NET_ADDRESS: nothing ever goes through it. One route makes every
 * address local to the guest ("AnyIP"), so the kernel accepts connections to them (net_lookup.h).
 * It is in the table `main`, so subnets of containers keep their longer prefix. There is no IPv6
 * route: such connects fail at once. */
#ifndef AGENT_NET_SETUP_H
#define AGENT_NET_SETUP_H

#define NET_ADDRESS "10.77.0.2"

/* Brings up lo, and nothing else. 0 or -errno. */
int net_setup_loopback(void);

/* Makes eth0 with its address. 0 or -errno; -ENODEV without the module `dummy`. */
int net_setup_interface(void);

/* Adds the route. The last step: from then on connects no longer fail with ENETUNREACH. 0 or
 * -errno. */
int net_setup_route(void);

#endif
