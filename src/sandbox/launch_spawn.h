/* The launcher of this process: what starts all its microVMs (jail/launcher.h). */
#ifndef SANDBOX_LAUNCH_SPAWN_H
#define SANDBOX_LAUNCH_SPAWN_H

#include "base/error.h"
#include "jail/launcher.h"

struct vmm;

/* Starts mayfly-vmm and fills its pid and jail. All of s is borrowed. */
int launch_spawn(const struct launcher_start *s, struct vmm *v, struct error *e);

#endif
