/* Removes directories that builds leave behind. */
#ifndef IO_RECLAIM_H
#define IO_RECLAIM_H

/* file_remove_own_tree. Without root, a workshop of mmdebstrap that was killed leaves files of
 * subordinate ids (jail/workshop_spec.h), which their user cannot remove: another workshop gives
 * them back first. Blocking. 0 or -errno. */
int reclaim_remove_tree(int dirfd, const char *name);

#endif
