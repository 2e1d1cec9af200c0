/* How an image wants to run, as settings of a template. */
#ifndef OCI_SETTINGS_H
#define OCI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/config.h"
#include "image/rootfs.h"
#include "oci/document.h"

/* Changes the settings, and adds to the tree what they need:
 *   - the environment, after what there is;
 *   - the user: root when the image names none. A number becomes the name that /etc/passwd has for
 *     it, or else a new one, uidN. A group is only used for such a new name;
 *   - the directory of commands: "/" when the image names none;
 *   - entrypoint and command as the start command, quoted for a shell, unless there is one already.
 * What cannot be taken over is noted, in a line each. */
int oci_settings_apply(const struct oci_config *c, struct rootfs *f, struct image_config *to,
	struct buf *notes, struct error *e);

/* The directory of commands as a path of the tree. ERROR_BAD_IMAGE. */
int oci_settings_workdir(const struct oci_config *c, char out[TREE_PATH_MAX], struct error *e);

/* The name of the user with that id, from the lines of a passwd; NULL has none. */
bool oci_settings_find_user(const char *passwd, uint64_t id, char out[CONFIG_USER_MAX + 1]);

#endif
