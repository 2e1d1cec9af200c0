/* What the host has to offer: memory and disk space. */
#ifndef SANDBOX_HOST_H
#define SANDBOX_HOST_H

#include <stdint.h>

#include "base/error.h"

/* MemAvailable and MemTotal in bytes; without /proc what is free, and what the kernel has. */
uint64_t host_memory_available(void);
uint64_t host_memory_total(void);

/* ERROR_NO_SPACE with figures when a sandbox of that size does not fit. */
int host_check_memory(uint64_t bytes, struct error *e);

/* ERROR_NO_SPACE when fewer bytes are free on dirfd's file system. path is for the message. */
int host_check_disk(int dirfd, const char *path, uint64_t bytes, struct error *e);

#endif
