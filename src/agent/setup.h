/* Sets up the user space that programs expect, once the root is in place: mounts,
 * files, limits. */
#ifndef AGENT_SETUP_H
#define AGENT_SETUP_H

void setup_mounts(void);
void setup_limits(void); /* also for the agent under test */
void setup_files(void);	 /* writes /etc/hosts and the like, if the image has none */

#endif
