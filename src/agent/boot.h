/* From the kernel's start of /init in the initramfs to a running user space in the image. */
#ifndef AGENT_BOOT_H
#define AGENT_BOOT_H

#include <stdbool.h>

/* True in the initramfs that the host made for a guest. Anywhere else, pid 1 of a container say,
 * boot() would delete what is in the root. */
bool boot_possible(void);

/* Mounts, loads modules, finds and enters the root. What fails is said on the console and kept as
 * guest.problem; the agent runs on and tells the host. */
void boot(void);

#endif
