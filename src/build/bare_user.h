/* Makes a user in an image without a shell, as the script of spec.c does where there is one. */
#ifndef BUILD_BARE_USER_H
#define BUILD_BARE_USER_H

#include "base/error.h"
#include "build/machine.h"

/* Makes the user with a group and a home, unless there is one of the name, behind which a group may
 * follow after a colon. Numbers and root need none. Fails for a name that a template's user cannot
 * have. */
int bare_user_make(struct machine *m, const char *name, struct error *e);

#endif
