/* A kernel's messages: frames cut out of the input, signed rightly by the target where the first
 * byte says so; then what becomes of their contents as lines, which must be ASCII and JSON. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "interpreter/lines.h"
#include "interpreter/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char key[] = "key";

static void check(bool good)
{
	if (!good)
		abort();
}

static void check_line(struct buf *line, int r)
{
	json_t *j;

	check(r == 0 && buf_len(line) > 2 && buf_head(line)[buf_len(line) - 1] == '\n');
	for (size_t i = 0; i + 1 < buf_len(line); i++)
		check(buf_head(line)[i] >= ' ' && buf_head(line)[i] <= 127); /* ASCII, DEL too */
	j = json_loadb((const char *)buf_head(line), buf_len(line), JSON_ALLOW_NUL, NULL);
	check(json_is_object(j));
	json_decref(j);
	buf_clear(line);
}

static void use_content(const struct message *m)
{
	struct buf line = BUF_INIT(1 << 20);
	json_t *content = message_content(m);

	if (content) {
		check_line(&line, lines_add_result(&line, content, true));
		check_line(&line, lines_add_kernel_error(&line, content));
	}
	check_line(&line, lines_add_text(&line, "stdout", m->content.data, m->content.n));
	json_decref(content);
	buf_done(&line);
}

/* Cuts at 0x1e bytes. */
static size_t cut(const uint8_t *data, size_t size, struct frame *frames)
{
	size_t count = 0, begin = 0;

	for (size_t i = 0; i <= size && count < MESSAGE_FRAMES_MAX; i++)
		if (i == size || data[i] == 0x1e) {
			frames[count++] = (struct frame){data + begin, i - begin};
			begin = i + 1;
		}
	return count;
}

static void use_signed(const struct frame *content)
{
	struct message_out out;
	struct message m;

	check(message_encode(&out, "stream", "s_1", "s", content->data, content->n, key) == 0);
	check(message_decode(out.frames, MESSAGE_FRAMES_SENT, key, &m) == 0);
	check(strcmp(m.type, "stream") == 0 && m.content.n == content->n);
	use_content(&m);
	message_out_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame frames[MESSAGE_FRAMES_MAX];
	struct message m;
	size_t count;

	if (size < 1)
		return 0;
	count = cut(data + 1, size - 1, frames);
	if (message_decode(frames, count, key, &m) == 0)
		use_content(&m);
	if (data[0] & 1)
		use_signed(&frames[count - 1]);
	return 0;
}
