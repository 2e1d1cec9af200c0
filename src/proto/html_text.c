#include "proto/html_text.h"

int html_text_add(struct buf *out, const char *text)
{
	int r = 0;

	for (; r == 0 && *text; text++)
		r = *text == '<'   ? buf_add_str(out, "&lt;")
		    : *text == '>' ? buf_add_str(out, "&gt;")
		    : *text == '&' ? buf_add_str(out, "&amp;")
		    : *text == '"' ? buf_add_str(out, "&quot;")
				   : buf_add(out, text, 1);
	return r;
}
