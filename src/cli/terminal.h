/* Puts the user's terminal into raw mode, and always restores it: by terminal_restore(), or by a
 * handler if this program crashes. (After SIGKILL, run `stty sane`.) One terminal per process. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>

/* Returns false, without a change, if fd is not a terminal. */
bool terminal_make_raw(int fd);
bool terminal_is_raw(void); /* by this module */
/* Call it again after the process was stopped and continued. */
void terminal_make_raw_again(void);
void terminal_restore(void);

/* The size of the first terminal among standard input, output and error; 80 x 24 if there is
 * none. */
void terminal_size(unsigned short *cols, unsigned short *rows);

#endif
