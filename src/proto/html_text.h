/* Text in pages of HTML, and in values of attributes with double quotes. */
#ifndef PROTO_HTML_TEXT_H
#define PROTO_HTML_TEXT_H

#include "base/buf.h"

/* Appends the text so that it stays text, whoever wrote it. 0 or -errno. */
int html_text_add(struct buf *out, const char *text);

#endif
