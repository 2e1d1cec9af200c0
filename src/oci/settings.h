/* Turns the configuration of an image into settings of a template. */
#ifndef OCI_SETTINGS_H
#define OCI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/config.h"
#include "image/rootfs.h"
#include "oci/document.h"

/* Changes the settings, and adds to the tree what they need:
 *   - the environment: the image's variables, added after those that are there;
 *   - the user: root when the image names none. A number becomes the name that /etc/passwd has for
 *     it, or else a new one, uidN. A group is only used for such a new name;
 *   - the working directory: "/" when the image names none;
 *   - entrypoint and command as the start command, quoted for a shell, unless there is one already;
 *   - the instructions of ONBUILD.
 * For each setting that cannot be taken over, appends a line to `notes`. */
int oci_settings_apply(const struct oci_config *c, struct rootfs *f, struct image_config *to,
	struct buf *notes, struct error *e);

/* The working directory as a path of the tree (tree.h). ERROR_BAD_IMAGE if it is not a valid
 * path. */
int oci_settings_workdir(const struct oci_config *c, char out[TREE_PATH_MAX], struct error *e);

/* Finds the name of the user with that id in the text of a passwd file; false if there is none.
 * passwd NULL: no such file. */
bool oci_settings_find_user(const char *passwd, uint64_t id, char out[CONFIG_USER_MAX + 1]);

#endif
