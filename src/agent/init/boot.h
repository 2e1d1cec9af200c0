/* Boots the guest: from the kernel's start of /init in the initramfs to a running user space in the
 * image. */
#ifndef AGENT_BOOT_H
#define AGENT_BOOT_H

#include <stdbool.h>

/* True in an initramfs that the host made for a guest. Anywhere else, for instance as pid 1 of a
 * container, boot() would delete the content of the root. */
bool boot_possible(void);

/* Mounts file systems, loads modules, then finds and enters the root. Failures go to the console
 * and to guest.problem. The agent keeps running and reports them to the host. */
void boot(void);

#endif
