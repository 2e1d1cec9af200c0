#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "build/builder_internal.h"
#include "image/template.h"

/* Texts of others, which need not be UTF-8. */
static json_t *text_json(const char *text)
{
	json_t *json = json_string(text);
	_cleanup_free_ char *copy = json ? NULL : strdup(text);

	for (char *p = copy; p && *p; p++)
		if (*p & 0x80)
			*p = '?';
	return json ? json : json_string(copy ? copy : "");
}

static void add(json_t *list, json_t *text, uint64_t bytes)
{
	(void)json_array_append_new(
		list, json_pack("{s:o, s:I}", "step", text, "bytes", (json_int_t)bytes));
}

/* What a stage is on, and its own steps. */
static void add_stage(const struct builder *b, size_t k, json_t *list)
{
	const struct dockerfile_stage *s = &b->o->file->stages[k];
	int base = dockerfile_find_stage(b->o->file, b->bases[k], k);

	if (base >= 0)
		add_stage(b, (size_t)base, list);
	else
		add(list, json_sprintf("FROM %s", b->bases[k]), b->base_bytes[k]);
	for (size_t i = 0; i < s->steps.count; i++)
		if (*s->steps.items[i].text)
			add(list, text_json(s->steps.items[i].text), b->wrote[k][i]);
}

int builder_write_history(struct builder *b, struct error *e)
{
	json_t *list = json_array();
	_cleanup_free_ char *text = NULL;
	int r;

	add_stage(b, b->o->file->stage_count - 1, list);
	text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	r = text ? file_write_atomic(b->w.fd, TEMPLATE_HISTORY_FILE, text, strlen(text), 0600)
		 : -ENOMEM;
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot write the history") : 0;
}
