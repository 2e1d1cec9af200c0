/* Encodes and decodes messages from one table of fields per message, so that encoder, decoder and
 * limits always agree. Fields are on the wire in the table's order, which is also the order in the
 * specification. */
#include "proto/agent_wire.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/reader.h"

enum field_kind {
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_U32S,    /* array of max */
	FIELD_STRING,  /* at most max bytes */
	FIELD_STRINGS, /* at most max strings, max2 packed bytes */
	FIELD_ENV,     /* the same; each has a '=' that is not its first character */
	FIELD_BYTES,   /* pointer, then uint32_t length in the next member; at most max */
};

struct field {
	uint8_t kind;
	uint16_t offset; /* in the message's struct */
	uint32_t max, max2;
};

#define F(kind, name, member, ...)                                                                 \
	{                                                                                          \
		FIELD_##kind, offsetof(struct agent_##name, member), ##__VA_ARGS__                 \
	}

static const struct field hello_fields[] = {
	F(U16, hello, version_min),
	F(U16, hello, version_max),
};

static const struct field hello_reply_fields[] = {
	F(U16, hello_reply, version),
	F(U16, hello_reply, version_min),
	F(U16, hello_reply, version_max),
	F(U16, hello_reply, state),
	F(U32, hello_reply, facts),
	F(U64, hello_reply, capabilities),
	F(STRING, hello_reply, agent_version, AGENT_NAME_MAX),
	F(STRING, hello_reply, boot_id, AGENT_NAME_MAX),
	F(STRING, hello_reply, root_fs, AGENT_NAME_MAX),
	F(STRING, hello_reply, problem, AGENT_TEXT_MAX),
};

static const struct field identity_fields[] = {
	F(U32, identity, fields),
	F(U64, identity, realtime_ns),
	F(BYTES, identity, entropy, AGENT_ENTROPY_MAX),
	F(STRING, identity, hostname, AGENT_NAME_MAX),
	F(STRING, identity, machine_id, AGENT_NAME_MAX),
	F(ENV, identity, env, AGENT_ENV_MAX, AGENT_ENV_BYTES_MAX),
	F(STRING, identity, user, AGENT_NAME_MAX),
	F(STRING, identity, workdir, AGENT_PATH_MAX),
	F(U64, identity, disk_bytes),
};

static const struct field identity_reply_fields[] = {
	F(U32, identity_reply, attempted),
	F(U32, identity_reply, failed),
	F(U32S, identity_reply, errs, AGENT_ID_FIELDS),
};

static const struct field sync_fields[] = {F(U32, sync, flags)};
static const struct field hold_fields[] = {F(U32, hold, limit_ms)};

static const struct field shutdown_fields[] = {
	F(U32, shutdown, flags),
	F(U32, shutdown, grace_ms),
};

static const struct field metrics_fields[] = {
	F(U64, metrics, uptime_ns),
	F(U64, metrics, realtime_ns),
	F(U32, metrics, cpus),
	F(U32, metrics, tasks),
	F(U32, metrics, processes),
	F(U64, metrics, cpu_user_ns),
	F(U64, metrics, cpu_system_ns),
	F(U64, metrics, cpu_idle_ns),
	F(U64, metrics, cpu_iowait_ns),
	F(U64, metrics, cpu_steal_ns),
	F(U64, metrics, memory_total_bytes),
	F(U64, metrics, memory_free_bytes),
	F(U64, metrics, memory_available_bytes),
	F(U64, metrics, memory_cached_bytes),
	F(U64, metrics, disk_total_bytes),
	F(U64, metrics, disk_free_bytes),
	F(U64, metrics, disk_available_bytes),
};

static const struct field exec_fields[] = {
	F(U32, exec, flags),
	F(U16, exec, cols),
	F(U16, exec, rows),
	F(U32, exec, timeout_ms),
	F(STRING, exec, user, AGENT_NAME_MAX),
	F(STRING, exec, cwd, AGENT_PATH_MAX),
	F(STRING, exec, tag, AGENT_NAME_MAX),
	F(STRINGS, exec, argv, AGENT_ARGV_MAX, AGENT_ARGV_BYTES_MAX),
	F(ENV, exec, env, AGENT_ENV_MAX, AGENT_ENV_BYTES_MAX),
};

#define SELECTOR_FIELDS(name)                                                                      \
	F(U32, name, process.pid), F(STRING, name, process.tag, AGENT_NAME_MAX)

static const struct field attach_fields[] = {SELECTOR_FIELDS(attach)};

static const struct field signal_process_fields[] = {
	SELECTOR_FIELDS(signal_process),
	F(U32, signal_process, signo),
	F(U32, signal_process, flags),
};

static const struct field input_fields[] = {
	SELECTOR_FIELDS(input),
	F(U32, input, flags),
	F(BYTES, input, data, AGENT_PAYLOAD_MAX),
};

static const struct field close_input_fields[] = {SELECTOR_FIELDS(close_input)};

static const struct field resize_process_fields[] = {
	SELECTOR_FIELDS(resize_process),
	F(U16, resize_process, cols),
	F(U16, resize_process, rows),
};

static const struct field signal_fields[] = {F(U32, signal, signo), F(U32, signal, flags)};
static const struct field resize_fields[] = {F(U16, resize, cols), F(U16, resize, rows)};
static const struct field started_fields[] = {F(U32, started, pid)};
static const struct field window_fields[] = {F(U32, window, bytes)};

static const struct field exit_fields[] = {
	F(U32, exit, flags),
	F(U32, exit, status),
	F(U64, exit, user_us),
	F(U64, exit, system_us),
	F(U64, exit, max_rss_bytes),
};

static const struct field process_fields[] = {
	F(U32, process, pid),
	F(U32, process, flags),
	F(U64, process, started_ns),
	F(BYTES, process, exec, AGENT_MESSAGE_MAX),
};

#define PATH_FIELDS(name, member)                                                                  \
	F(STRING, name, user, AGENT_NAME_MAX), F(STRING, name, member, AGENT_PATH_MAX)

static const struct field stat_fields[] = {F(U32, stat, flags), PATH_FIELDS(stat, path)};

static const struct field list_fields[] = {
	F(U32, list, flags),
	F(U32, list, depth),
	PATH_FIELDS(list, path),
};

static const struct field read_fields[] = {
	F(U32, read, flags),
	F(U64, read, offset),
	F(U64, read, length),
	PATH_FIELDS(read, path),
};

static const struct field write_fields[] = {
	F(U32, write, flags),
	F(U32, write, mode),
	F(U64, write, offset),
	PATH_FIELDS(write, path),
};

static const struct field mkdir_fields[] = {
	F(U32, mkdir, flags),
	F(U32, mkdir, mode),
	PATH_FIELDS(mkdir, path),
};

static const struct field move_fields[] = {
	F(U32, move, flags),
	PATH_FIELDS(move, from),
	F(STRING, move, to, AGENT_PATH_MAX),
};

static const struct field remove_fields[] = {F(U32, remove, flags), PATH_FIELDS(remove, path)};

static const struct field set_attr_fields[] = {
	F(U32, set_attr, flags),
	F(U32, set_attr, mode),
	F(U64, set_attr, mtime_ns),
	F(STRING, set_attr, owner, AGENT_NAME_MAX),
	PATH_FIELDS(set_attr, path),
};

static const struct field set_xattrs_fields[] = {
	F(U32, set_xattrs, flags),
	F(STRING, set_xattrs, prefix, AGENT_NAME_MAX),
	PATH_FIELDS(set_xattrs, path),
	F(STRINGS, set_xattrs, pairs, 2 * AGENT_XATTR_MAX, AGENT_XATTR_BYTES_MAX),
};

static const struct field entry_fields[] = {
	F(U32, entry, mode),
	F(U32, entry, target_mode),
	F(U32, entry, uid),
	F(U32, entry, gid),
	F(U64, entry, size),
	F(U64, entry, mtime_ns),
	F(STRING, entry, path, AGENT_PATH_MAX),
	F(STRING, entry, owner, AGENT_NAME_MAX),
	F(STRING, entry, group, AGENT_NAME_MAX),
	F(STRING, entry, target, AGENT_PATH_MAX),
	F(STRING, entry, resolved, AGENT_PATH_MAX),
	F(STRINGS, entry, xattrs, 2 * AGENT_XATTR_MAX, AGENT_XATTR_BYTES_MAX),
};

static const struct field watch_fields[] = {F(U32, watch, flags), PATH_FIELDS(watch, path)};

static const struct field watch_event_fields[] = {
	F(U32, watch_event, kind),
	F(STRING, watch_event, name, AGENT_PATH_MAX),
	F(BYTES, watch_event, entry, AGENT_PAYLOAD_MAX),
};

static const struct field tree_fields[] = {F(U32, tree, flags), PATH_FIELDS(tree, path)};

static const struct field node_fields[] = {
	F(U32, node, mode),
	F(U32, node, uid),
	F(U32, node, gid),
	F(U64, node, inode),
	F(U64, node, device),
	F(U64, node, size),
	F(U64, node, mtime_ns),
	F(U64, node, ctime_ns),
	F(STRING, node, path, AGENT_PATH_MAX),
	F(STRING, node, target, AGENT_PATH_MAX),
};

static const struct field task_fields[] = {
	F(U32, task, pid),
	F(U32, task, parent),
	F(U64, task, start),
	F(STRING, task, command, AGENT_TEXT_MAX),
};

static const struct field program_fields[] = {
	F(U32, program, event),
	F(U32, program, pid),
	F(U32, program, parent),
	F(U32, program, uid),
	F(U32, program, value),
	F(BYTES, program, command, AGENT_COMMAND_MAX),
};

static const struct field trace_files_fields[] = {
	F(STRINGS, trace_files, outside, AGENT_OUTSIDE_MAX, AGENT_OUTSIDE_BYTES_MAX),
};

static const struct field file_fields[] = {
	F(U32, file, event),
	F(U32, file, pid),
	F(U32, file, value),
	F(STRING, file, path, AGENT_PATH_MAX),
};

static const struct field dial_fields[] = {
	F(U16, dial, port),
	F(STRING, dial, host, AGENT_NAME_MAX),
};

static const struct field error_fields[] = {
	F(U16, error, class),
	F(U16, error, request),
	F(U32, error, err),
	F(STRING, error, message, AGENT_TEXT_MAX),
};

static const struct message {
	uint16_t type;
	uint16_t bytes; /* of the struct */
	uint16_t count;
	const struct field *fields;
} messages[] = {
#define MESSAGE(name, type)                                                                        \
	{type, sizeof(struct agent_##name), ARRAY_SIZE(name##_fields), name##_fields},
	AGENT_MESSAGES(MESSAGE)
#undef MESSAGE
};

static const struct message *find_message(unsigned type)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		if (messages[i].type == type)
			return &messages[i];
	return NULL;
}

bool agent_strings_next(const struct agent_strings *s, size_t *pos, const char **ret)
{
	if (s->array) {
		if (*pos >= s->count)
			return false;
		*ret = s->array[(*pos)++];
		return true;
	}
	if (*pos >= s->packed_bytes)
		return false;
	*ret = (const char *)s->packed + *pos + 4;
	*pos += 4 + (size_t)get_le32(s->packed + *pos) + 1;
	return true;
}

/* --- encoding: one pass for the size and the limits, one for the bytes --- */

static const char *load_string(const uint8_t *at)
{
	const char *s;

	memcpy(&s, at, sizeof(s));
	return s ? s : "";
}

static bool is_env(const char *s)
{
	return s[0] != '=' && strchr(s, '=');
}

static int measure_strings(const struct field *f, const struct agent_strings *s, size_t *ret)
{
	size_t pos = 0, bytes = 0;
	const char *v;

	if (s->count > f->max)
		return -E2BIG;
	while (agent_strings_next(s, &pos, &v)) {
		if (f->kind == FIELD_ENV && !is_env(v))
			return -EINVAL;
		bytes += 4 + strlen(v) + 1;
		if (bytes > f->max2)
			return -E2BIG;
	}
	*ret = 8 + bytes;
	return 0;
}

static int measure_field(const struct field *f, const uint8_t *at, size_t *ret)
{
	uint32_t n;

	switch ((enum field_kind)f->kind) {
	case FIELD_U16:
		*ret = 2;
		return 0;
	case FIELD_U32:
		*ret = 4;
		return 0;
	case FIELD_U64:
		*ret = 8;
		return 0;
	case FIELD_U32S:
		*ret = (size_t)f->max * 4;
		return 0;
	case FIELD_STRING:
		*ret = strlen(load_string(at)) + 5;
		return *ret - 5 > f->max ? -E2BIG : 0;
	case FIELD_STRINGS:
	case FIELD_ENV:
		return measure_strings(f, (const struct agent_strings *)(const void *)at, ret);
	case FIELD_BYTES:
		memcpy(&n, at + sizeof(void *), sizeof(n));
		*ret = 4 + (size_t)n;
		return n > f->max ? -E2BIG : 0;
	}
	return -EINVAL;
}

static uint8_t *put_string(uint8_t *out, const char *s)
{
	size_t n = strlen(s);

	put_le32(out, (uint32_t)n);
	memcpy(out + 4, s, n + 1);
	return out + 4 + n + 1;
}

static uint8_t *put_strings(uint8_t *out, const struct agent_strings *s)
{
	uint8_t *head = out;
	uint32_t count = 0;
	size_t pos = 0;
	const char *v;

	out += 8;
	while (agent_strings_next(s, &pos, &v)) {
		out = put_string(out, v);
		count++;
	}
	put_le32(head, count);
	put_le32(head + 4, (uint32_t)(out - head - 8));
	return out;
}

static uint8_t *put_bytes(uint8_t *out, const uint8_t *at)
{
	const uint8_t *data;
	uint32_t n;

	memcpy(&data, at, sizeof(data));
	memcpy(&n, at + sizeof(void *), sizeof(n));
	put_le32(out, n);
	if (n)
		memcpy(out + 4, data, n);
	return out + 4 + n;
}

static uint8_t *put_field(uint8_t *out, const struct field *f, const uint8_t *at)
{
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	switch ((enum field_kind)f->kind) {
	case FIELD_U16:
		memcpy(&u16, at, sizeof(u16));
		put_le16(out, u16);
		return out + 2;
	case FIELD_U32:
	case FIELD_U32S:
		for (uint32_t i = 0; i < (f->kind == FIELD_U32 ? 1 : f->max); i++, out += 4) {
			memcpy(&u32, at + 4 * (size_t)i, sizeof(u32));
			put_le32(out, u32);
		}
		return out;
	case FIELD_U64:
		memcpy(&u64, at, sizeof(u64));
		put_le64(out, u64);
		return out + 8;
	case FIELD_STRING:
		return put_string(out, load_string(at));
	case FIELD_STRINGS:
	case FIELD_ENV:
		return put_strings(out, (const struct agent_strings *)(const void *)at);
	case FIELD_BYTES:
		return put_bytes(out, at);
	}
	return out;
}

static int measure(const struct message *m, const uint8_t *message, size_t *ret)
{
	size_t total = 0, n;

	for (size_t i = 0; i < m->count; i++) {
		int r = measure_field(&m->fields[i], message + m->fields[i].offset, &n);

		if (r < 0)
			return r;
		total += n;
	}
	*ret = total;
	return total > AGENT_MESSAGE_MAX ? -E2BIG : 0;
}

/* The payload lies behind the space for all headers. Each piece moves forward into its place. */
static void put_frames(uint8_t *p, uint8_t type, const uint8_t *payload, size_t total)
{
	do {
		size_t n = total < AGENT_PAYLOAD_MAX ? total : AGENT_PAYLOAD_MAX;

		agent_header_encode(p, type, n < total ? AGENT_MORE : 0, (uint32_t)n);
		memmove(p + AGENT_HEADER_BYTES, payload, n);
		p += AGENT_HEADER_BYTES + n;
		payload += n;
		total -= n;
	} while (total);
}

int agent_encode(struct buf *out, enum agent_type type, const void *message)
{
	const struct message *m = find_message(type);
	const uint8_t *from = message;
	size_t total, headers;
	uint8_t *p, *q;
	int r;

	if (!m)
		return -EINVAL;
	r = measure(m, from, &total);
	if (r < 0)
		return r;
	headers = total ? (total + AGENT_PAYLOAD_MAX - 1) / AGENT_PAYLOAD_MAX : 1;
	headers *= AGENT_HEADER_BYTES;
	p = buf_reserve(out, headers + total);
	if (!p)
		return -errno;
	q = p + headers;
	for (size_t i = 0; i < m->count; i++)
		q = put_field(q, &m->fields[i], from + m->fields[i].offset);
	assert(q == p + headers + total);
	put_frames(p, (uint8_t)type, p + headers, total);
	buf_commit(out, headers + total);
	return 0;
}

/* --- decoding --- */

static int get_string(struct reader *r, uint32_t max, const char **ret)
{
	uint32_t n = reader_le32(r);
	const uint8_t *p;

	if (!r->bad && n > max)
		return -E2BIG;
	p = reader_bytes(r, (size_t)n + 1);
	if (!p || p[n] != 0 || memchr(p, 0, n))
		return -EBADMSG;
	*ret = (const char *)p;
	return 0;
}

static int get_strings(struct reader *r, const struct field *f, struct agent_strings *ret)
{
	uint32_t count = reader_le32(r), bytes = reader_le32(r), n = 0;
	const uint8_t *p;
	struct reader in;
	const char *s;

	if (!r->bad && (count > f->max || bytes > f->max2))
		return -E2BIG;
	p = reader_bytes(r, bytes);
	if (!p)
		return -EBADMSG;
	for (in = reader_of(p, bytes); reader_left(&in); n++) {
		if (get_string(&in, bytes, &s) < 0 || (f->kind == FIELD_ENV && !is_env(s)))
			return -EBADMSG;
	}
	if (n != count)
		return -EBADMSG;
	*ret = (struct agent_strings){.count = count, .packed = p, .packed_bytes = bytes};
	return 0;
}

static int get_bytes(struct reader *r, const struct field *f, uint8_t *at)
{
	uint32_t n = reader_le32(r);
	const uint8_t *p;

	if (!r->bad && n > f->max)
		return -E2BIG;
	p = reader_bytes(r, n);
	if (!p)
		return -EBADMSG;
	memcpy(at, &p, sizeof(p));
	memcpy(at + sizeof(void *), &n, sizeof(n));
	return 0;
}

static int get_field(struct reader *r, const struct field *f, uint8_t *at)
{
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	const char *s;
	int t;

	switch ((enum field_kind)f->kind) {
	case FIELD_U16:
		u16 = reader_le16(r);
		memcpy(at, &u16, sizeof(u16));
		return 0;
	case FIELD_U32:
	case FIELD_U32S:
		for (uint32_t i = 0; i < (f->kind == FIELD_U32 ? 1 : f->max); i++) {
			u32 = reader_le32(r);
			memcpy(at + 4 * (size_t)i, &u32, sizeof(u32));
		}
		return 0;
	case FIELD_U64:
		u64 = reader_le64(r);
		memcpy(at, &u64, sizeof(u64));
		return 0;
	case FIELD_STRING:
		t = get_string(r, f->max, &s);
		if (t == 0)
			memcpy(at, &s, sizeof(s));
		return t;
	case FIELD_STRINGS:
	case FIELD_ENV:
		return get_strings(r, f, (struct agent_strings *)(void *)at);
	case FIELD_BYTES:
		return get_bytes(r, f, at);
	}
	return -EBADMSG;
}

int agent_decode(enum agent_type type, const void *payload, size_t n, void *message)
{
	const struct message *m = find_message(type);
	struct reader r = reader_of(payload, n);
	uint8_t *to = message;

	if (!m)
		return -EBADMSG;
	memset(message, 0, m->bytes);
	for (size_t i = 0; i < m->count; i++) {
		int t = get_field(&r, &m->fields[i], to + m->fields[i].offset);

		if (t < 0)
			return t;
	}
	return reader_finished(&r) ? 0 : -EBADMSG;
}

/* --- frames --- */

void agent_header_encode(
	uint8_t out[AGENT_HEADER_BYTES], uint8_t type, uint8_t flags, uint32_t length)
{
	out[0] = type;
	out[1] = flags;
	put_le16(out + 2, 0);
	put_le32(out + 4, length);
}

int agent_header_decode(const uint8_t data[AGENT_HEADER_BYTES], struct agent_header *ret)
{
	uint32_t length = get_le32(data + 4);

	if ((data[1] & ~AGENT_MORE) || get_le16(data + 2) || length > AGENT_PAYLOAD_MAX)
		return -EBADMSG;
	*ret = (struct agent_header){.type = data[0], .flags = data[1], .length = length};
	return 0;
}

int agent_add_raw(struct buf *out, enum agent_type type, const void *data, size_t n)
{
	uint8_t *p;

	if (n > AGENT_PAYLOAD_MAX)
		return -E2BIG;
	p = buf_reserve(out, AGENT_HEADER_BYTES + n);
	if (!p)
		return -errno;
	agent_header_encode(p, (uint8_t)type, 0, (uint32_t)n);
	if (n)
		memcpy(p + AGENT_HEADER_BYTES, data, n);
	buf_commit(out, AGENT_HEADER_BYTES + n);
	return 0;
}

enum { RX_SPACE_MIN = 4096, RX_BYTES_MAX = 2 * (AGENT_HEADER_BYTES + AGENT_PAYLOAD_MAX) };

void agent_rx_init(struct agent_rx *rx)
{
	*rx = (struct agent_rx){
		.in = BUF_INIT(RX_BYTES_MAX),
		.message = BUF_INIT(AGENT_MESSAGE_MAX),
	};
}

void agent_rx_done(struct agent_rx *rx)
{
	buf_done(&rx->in);
	buf_done(&rx->message);
}

uint8_t *agent_rx_space(struct agent_rx *rx, size_t *n)
{
	size_t left = rx->in.max - buf_len(&rx->in), want = RX_SPACE_MIN, have;
	struct agent_header h;
	uint8_t *p;

	have = buf_len(&rx->in) - rx->used;
	if (have >= AGENT_HEADER_BYTES &&
		agent_header_decode(buf_head(&rx->in) + rx->used, &h) == 0 &&
		AGENT_HEADER_BYTES + h.length > have)
		want = AGENT_HEADER_BYTES + h.length - have;
	if (want < RX_SPACE_MIN)
		want = RX_SPACE_MIN;
	if (want > left)
		want = left;
	p = want ? buf_reserve(&rx->in, want) : NULL;
	*n = p ? rx->in.capacity - rx->in.end : 0;
	return p;
}

void agent_rx_received(struct agent_rx *rx, size_t n)
{
	buf_commit(&rx->in, n);
}

void agent_rx_release(struct agent_rx *rx)
{
	buf_consume(&rx->in, rx->used);
	rx->used = 0;
	if (rx->complete && !rx->unread) {
		buf_done(&rx->message); /* large messages are rare, so the memory is freed */
		rx->complete = false;
		rx->joining = 0;
	}
}

void agent_rx_unread(struct agent_rx *rx)
{
	rx->used = 0;
	rx->unread = rx->complete;
}

static int hand_out_message(struct agent_rx *rx, struct agent_frame *ret)
{
	*ret = (struct agent_frame){rx->joining, buf_head(&rx->message), buf_len(&rx->message)};
	rx->unread = false;
	return 1;
}

/* Moves one frame into the message; 1 when the message is complete. */
static int join(struct agent_rx *rx, const struct agent_header *h, const uint8_t *payload)
{
	int r;

	if ((rx->joining && rx->joining != h->type) || (!h->length && (h->flags & AGENT_MORE)) ||
		!find_message(h->type))
		return -EBADMSG;
	r = buf_add(&rx->message, payload, h->length);
	if (r < 0)
		return r == -EMSGSIZE ? -E2BIG : r;
	buf_consume(&rx->in, AGENT_HEADER_BYTES + h->length);
	rx->joining = h->type;
	rx->complete = !(h->flags & AGENT_MORE);
	return rx->complete;
}

int agent_rx_next(struct agent_rx *rx, struct agent_frame *ret)
{
	struct agent_header h;
	int r;

	agent_rx_release(rx);
	if (rx->unread)
		return hand_out_message(rx, ret);
	for (;;) {
		const uint8_t *p;

		if (buf_len(&rx->in) < AGENT_HEADER_BYTES)
			return 0;
		p = buf_head(&rx->in);
		r = agent_header_decode(p, &h);
		if (r < 0)
			return r;
		if (buf_len(&rx->in) < AGENT_HEADER_BYTES + h.length)
			return 0;
		if (!rx->joining && !(h.flags & AGENT_MORE)) {
			rx->used = AGENT_HEADER_BYTES + h.length;
			*ret = (struct agent_frame){h.type, p + AGENT_HEADER_BYTES, h.length};
			return 1;
		}
		r = join(rx, &h, p + AGENT_HEADER_BYTES);
		if (r < 0)
			return r;
		if (r)
			return hand_out_message(rx, ret);
	}
}

/* --- names --- */

const char *agent_error_class_name(unsigned class)
{
	static const char *const names[] = {
		[AGENT_ERR_INTERNAL] = "internal",
		[AGENT_ERR_MALFORMED] = "malformed",
		[AGENT_ERR_UNSUPPORTED] = "unsupported",
		[AGENT_ERR_LIMIT] = "limit",
		[AGENT_ERR_INVALID] = "invalid",
		[AGENT_ERR_UNUSABLE] = "unusable",
		[AGENT_ERR_NOT_FOUND] = "not_found",
		[AGENT_ERR_EXISTS] = "exists",
		[AGENT_ERR_PERMISSION] = "permission",
		[AGENT_ERR_NO_SPACE] = "no_space",
		[AGENT_ERR_NOT_DIRECTORY] = "not_directory",
		[AGENT_ERR_IS_DIRECTORY] = "is_directory",
		[AGENT_ERR_NOT_FILE] = "not_file",
		[AGENT_ERR_LOOP] = "loop",
		[AGENT_ERR_NO_COMMAND] = "no_command",
		[AGENT_ERR_NOT_EXECUTABLE] = "not_executable",
		[AGENT_ERR_BAD_CWD] = "bad_cwd",
		[AGENT_ERR_BAD_USER] = "bad_user",
		[AGENT_ERR_INPUT_CLOSED] = "input_closed",
		[AGENT_ERR_WRONG_KIND] = "wrong_kind",
		[AGENT_ERR_REFUSED] = "refused",
	};

	return class < ARRAY_SIZE(names) && names[class] ? names[class] : "unknown";
}

const char *agent_id_name(unsigned n)
{
	static const char *const names[AGENT_ID_FIELDS] = {"clock", "entropy", "host name",
		"machine id", "environment", "user", "working directory", "disk size"};

	return names[n];
}

static const char *const type_names[] = {
	[AGENT_HELLO] = "HELLO",
	[AGENT_IDENTITY] = "IDENTITY",
	[AGENT_SYNC] = "SYNC",
	[AGENT_SHUTDOWN] = "SHUTDOWN",
	[AGENT_GET_METRICS] = "GET_METRICS",
	[AGENT_FREEZE] = "FREEZE",
	[AGENT_HOLD] = "HOLD",
	[AGENT_RELEASE] = "RELEASE",
	[AGENT_EXEC] = "EXEC",
	[AGENT_ATTACH] = "ATTACH",
	[AGENT_LIST_PROCESSES] = "LIST_PROCESSES",
	[AGENT_SIGNAL_PROCESS] = "SIGNAL_PROCESS",
	[AGENT_INPUT] = "INPUT",
	[AGENT_CLOSE_INPUT] = "CLOSE_INPUT",
	[AGENT_RESIZE_PROCESS] = "RESIZE_PROCESS",
	[AGENT_LIST_TASKS] = "LIST_TASKS",
	[AGENT_TRACE] = "TRACE",
	[AGENT_TRACE_FILES] = "TRACE_FILES",
	[AGENT_STDIN] = "STDIN",
	[AGENT_STDIN_EOF] = "STDIN_EOF",
	[AGENT_SIGNAL] = "SIGNAL",
	[AGENT_RESIZE] = "RESIZE",
	[AGENT_STOP] = "STOP",
	[AGENT_STAT] = "STAT",
	[AGENT_LIST] = "LIST",
	[AGENT_READ] = "READ",
	[AGENT_WRITE] = "WRITE",
	[AGENT_MKDIR] = "MKDIR",
	[AGENT_MOVE] = "MOVE",
	[AGENT_REMOVE] = "REMOVE",
	[AGENT_SET_ATTR] = "SET_ATTR",
	[AGENT_SET_XATTRS] = "SET_XATTRS",
	[AGENT_WATCH] = "WATCH",
	[AGENT_TREE] = "TREE",
	[AGENT_DIAL] = "DIAL",
	[AGENT_DATA] = "DATA",
	[AGENT_END] = "END",
	[AGENT_OK] = "OK",
	[AGENT_ERROR] = "ERROR",
	[AGENT_HELLO_REPLY] = "HELLO_REPLY",
	[AGENT_IDENTITY_REPLY] = "IDENTITY_REPLY",
	[AGENT_METRICS] = "METRICS",
	[AGENT_STARTED] = "STARTED",
	[AGENT_STDOUT] = "STDOUT",
	[AGENT_STDERR] = "STDERR",
	[AGENT_PTY] = "PTY",
	[AGENT_EXIT] = "EXIT",
	[AGENT_PROCESS] = "PROCESS",
	[AGENT_WINDOW] = "WINDOW",
	[AGENT_TASK] = "TASK",
	[AGENT_PROGRAM] = "PROGRAM",
	[AGENT_FILE] = "FILE",
	[AGENT_ENTRY] = "ENTRY",
	[AGENT_WATCH_EVENT] = "WATCH_EVENT",
	[AGENT_NODE] = "NODE",
};

const char *agent_type_name(unsigned type)
{
	return type < ARRAY_SIZE(type_names) && type_names[type] ? type_names[type] : "unknown";
}
