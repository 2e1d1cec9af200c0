/* The user's terminal in raw mode, put back whatever happens: by terminal_restore(), and by a
 * handler should this program crash. (After SIGKILL `stty sane` helps.) One per process. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>

/* False when fd is no terminal; nothing is changed then. */
bool terminal_make_raw(int fd);
/* Once more, after the process was stopped and continued. */
void terminal_make_raw_again(void);
void terminal_restore(void);

/* Size of the first terminal among standard input, output and error; 80 x 24 when there is none. */
void terminal_size(unsigned short *cols, unsigned short *rows);

#endif
