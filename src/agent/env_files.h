/* /run/e2b: files of the variables that name the sandbox, as in E2B's guests, for programs whose
 * environment lacks them (services, cron). */
#ifndef AGENT_ENV_FILES_H
#define AGENT_ENV_FILES_H

#include "proto/agent_wire.h"

#define ENV_FILES_DIR "/run/e2b"

/* Writes dir/.E2B_SANDBOX, .E2B_SANDBOX_ID and .E2B_TEMPLATE_ID with the values that env has, and
 * makes the directory. A file that says it already stays as it is. 0 or -errno. */
int env_files_write(const char *dir, const struct agent_strings *env);

#endif
