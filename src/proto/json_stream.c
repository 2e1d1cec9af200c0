#include "proto/json_stream.h"

#include <string.h>

#include "base/str.h"
#include "proto/json_text.h"

enum state {
	BEGIN,	      /* the value has not begun */
	VALUE,	      /* a value must follow */
	VALUE_OR_END, /* or the end of the array */
	KEY,	      /* a key must follow */
	KEY_OR_END,   /* or the end of the object */
	COLON,
	COMMA_OR_END,
	STRING,
	ESCAPE,	  /* behind a backslash */
	HEX,	  /* digits of \uXXXX */
	LOW,	  /* the backslash of a low surrogate must follow */
	LOW_U,	  /* and its u */
	SEQUENCE, /* further bytes of a character */
	WORD,	  /* the rest of true, false, null */
	MINUS,	  /* a digit must follow */
	ZERO,	  /* 0: no further digit */
	INTEGER,  /* 1 to 9, and digits */
	POINT,	  /* a digit must follow */
	FRACTION,
	EXPONENT, /* a sign or digit must follow */
	SIGN,	  /* a digit must follow */
	POWER,
	DONE,
};

static bool refuse(struct json_stream *s, const char *why)
{
	if (!s->wrong)
		s->wrong = why;
	return false;
}

static bool malformed(struct json_stream *s)
{
	return refuse(s, "it is no valid JSON");
}

static void tell(struct json_stream *s, enum json_stream_kind kind)
{
	const struct json_stream_token t = {
		.kind = kind, .depth = s->depth, .text = s->text, .n = s->n, .cut = s->cut};

	s->text[s->n] = '\0';
	s->on(s->arg, &t);
	s->n = 0;
	s->cut = false;
}

static bool in_object(const struct json_stream *s)
{
	return s->objects >> (s->depth - 1) & 1;
}

static void after_value(struct json_stream *s)
{
	s->state = s->depth ? COMMA_OR_END : DONE;
}

/* --- containers --- */

static bool open_container(struct json_stream *s, bool object)
{
	uint64_t bit;

	if (s->depth == JSON_STREAM_DEPTH_MAX)
		return refuse(s, "its JSON nests too deep");
	tell(s, object ? JSON_STREAM_OBJECT : JSON_STREAM_ARRAY);
	bit = UINT64_C(1) << s->depth++;
	s->objects = object ? s->objects | bit : s->objects & ~bit;
	s->state = object ? KEY_OR_END : VALUE_OR_END;
	return true;
}

static bool close_container(struct json_stream *s, char c)
{
	if (in_object(s) != (c == '}'))
		return malformed(s);
	s->depth--;
	tell(s, JSON_STREAM_END);
	after_value(s);
	return true;
}

/* --- strings --- */

static void put(struct json_stream *s, const char *text, size_t n)
{
	size_t room = JSON_STREAM_TEXT_MAX - s->n;

	if (n > room)
		s->cut = true;
	n = n < room ? n : room;
	memcpy(s->text + s->n, text, n);
	s->n += n;
}

static void put_character(struct json_stream *s, uint32_t c)
{
	char out[4];

	put(s, out, (size_t)(json_text_put_utf8(out, c) - out));
}

/* All digits of \uXXXX are there. */
static bool take_unit(struct json_stream *s)
{
	bool low = s->unit >= 0xdc00 && s->unit <= 0xdfff;

	s->state = STRING;
	if (low != (s->lead != 0))
		return malformed(s);
	if (low) {
		put_character(s, 0x10000 + ((s->lead & 0x3ffu) << 10 | (s->unit & 0x3ff)));
		s->lead = 0;
	} else if (s->unit >= 0xd800 && s->unit < 0xdc00) {
		s->lead = s->unit;
		s->state = LOW;
	} else {
		put_character(s, s->unit);
	}
	return true;
}

static bool take_hex(struct json_stream *s, char c)
{
	int digit = str_hex_digit(c);

	if (digit < 0)
		return malformed(s);
	s->unit = (uint16_t)(s->unit << 4 | digit);
	return --s->digits || take_unit(s);
}

static bool take_escape(struct json_stream *s, char c)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *at = c ? strchr(names, c) : NULL;

	if (c == 'u') {
		s->state = HEX;
		s->digits = 4;
		s->unit = 0;
		return true;
	}
	if (!at)
		return malformed(s);
	put(s, &values[at - names], 1);
	s->state = STRING;
	return true;
}

/* The first byte of a character beyond ASCII: how many follow, and what the next one may be. */
static bool begin_sequence(struct json_stream *s, char byte)
{
	uint8_t c = (uint8_t)byte;

	if (c < 0xc2 || c > 0xf4)
		return malformed(s);
	s->more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	s->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	s->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	s->state = SEQUENCE;
	put(s, &byte, 1);
	return true;
}

static bool take_sequence(struct json_stream *s, char byte)
{
	uint8_t c = (uint8_t)byte;

	if (c < s->low || c > s->high)
		return malformed(s);
	s->low = 0x80;
	s->high = 0xbf;
	put(s, &byte, 1);
	if (--s->more == 0)
		s->state = STRING;
	return true;
}

static bool take_in_string(struct json_stream *s, char c)
{
	if (c == '"') {
		tell(s, s->key ? JSON_STREAM_KEY : JSON_STREAM_STRING);
		if (s->key)
			s->state = COLON;
		else
			after_value(s);
		return true;
	}
	if (c == '\\') {
		s->state = ESCAPE;
		return true;
	}
	if ((uint8_t)c < 0x20)
		return malformed(s);
	if ((uint8_t)c >= 0x80)
		return begin_sequence(s, c);
	put(s, &c, 1); /* 0x7f */
	return true;
}

static void begin_string(struct json_stream *s, bool key)
{
	s->key = key;
	s->state = STRING;
}

/* --- numbers and words --- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The state after one more byte of a number, or -1: it is none of it. */
static int next_of_number(int state, char c)
{
	bool digit = is_digit(c), e = c == 'e' || c == 'E';

	switch (state) {
	case MINUS:
		return c == '0' ? ZERO : digit ? INTEGER : -1;
	case INTEGER:
	case ZERO:
		return digit && state == INTEGER ? INTEGER : c == '.' ? POINT : e ? EXPONENT : -1;
	case POINT:
		return digit ? FRACTION : -1;
	case FRACTION:
		return digit ? FRACTION : e ? EXPONENT : -1;
	case EXPONENT:
		return c == '+' || c == '-' ? SIGN : digit ? POWER : -1;
	default: /* SIGN, POWER */
		return digit ? POWER : -1;
	}
}

static bool is_whole_number(int state)
{
	return state == ZERO || state == INTEGER || state == FRACTION || state == POWER;
}

static bool put_digit(struct json_stream *s, char c, int state)
{
	if (s->n == JSON_STREAM_NUMBER_MAX)
		return refuse(s, "a number in its JSON is too long");
	put(s, &c, 1);
	s->state = state;
	return true;
}

static bool take_byte(struct json_stream *s, char c);

static bool take_in_number(struct json_stream *s, char c)
{
	int next = next_of_number(s->state, c);

	if (next >= 0)
		return put_digit(s, c, next);
	if (!is_whole_number(s->state))
		return malformed(s);
	tell(s, JSON_STREAM_NUMBER);
	after_value(s);
	return take_byte(s, c);
}

static bool take_in_word(struct json_stream *s, char c)
{
	if (c != *s->word++)
		return malformed(s);
	if (*s->word == '\0') {
		tell(s, s->word_kind);
		after_value(s);
	}
	return true;
}

static bool begin_word(struct json_stream *s, const char *rest, enum json_stream_kind kind)
{
	s->word = rest;
	s->word_kind = kind;
	s->state = WORD;
	return true;
}

/* --- values --- */

static bool begin_value(struct json_stream *s, char c)
{
	switch (c) {
	case '{':
	case '[':
		return open_container(s, c == '{');
	case '"':
		begin_string(s, false);
		return true;
	case 't':
		return begin_word(s, "rue", JSON_STREAM_TRUE);
	case 'f':
		return begin_word(s, "alse", JSON_STREAM_FALSE);
	case 'n':
		return begin_word(s, "ull", JSON_STREAM_NULL);
	case '-':
		return put_digit(s, c, MINUS);
	default:
		return is_digit(c) ? put_digit(s, c, c == '0' ? ZERO : INTEGER) : malformed(s);
	}
}

static bool begin_key(struct json_stream *s, char c)
{
	if (c == '"')
		begin_string(s, true);
	return c == '"' || malformed(s);
}

/* Between values. */
static bool take_between(struct json_stream *s, char c)
{
	if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
		return true;
	switch (s->state) {
	case BEGIN:
		return c == '{' || c == '[' ? begin_value(s, c) : malformed(s);
	case VALUE_OR_END:
		return c == ']' ? close_container(s, c) : begin_value(s, c);
	case VALUE:
		return begin_value(s, c);
	case KEY_OR_END:
		return c == '}' ? close_container(s, c) : begin_key(s, c);
	case KEY:
		return begin_key(s, c);
	case COLON:
		s->state = VALUE;
		return c == ':' || malformed(s);
	case COMMA_OR_END:
		if (c != ',')
			return c == '}' || c == ']' ? close_container(s, c) : malformed(s);
		s->state = in_object(s) ? KEY : VALUE;
		return true;
	default: /* DONE */
		return malformed(s);
	}
}

/* The byte that must come, and what then follows. */
static bool expect(struct json_stream *s, char c, char wanted, int next)
{
	s->state = next;
	return c == wanted || malformed(s);
}

static bool take_byte(struct json_stream *s, char c)
{
	switch (s->state) {
	case STRING:
		return take_in_string(s, c);
	case ESCAPE:
		return take_escape(s, c);
	case HEX:
		return take_hex(s, c);
	case LOW:
		return expect(s, c, '\\', LOW_U);
	case LOW_U:
		return expect(s, c, 'u', ESCAPE) && take_escape(s, c);
	case SEQUENCE:
		return take_sequence(s, c);
	case WORD:
		return take_in_word(s, c);
	case MINUS:
	case ZERO:
	case INTEGER:
	case POINT:
	case FRACTION:
	case EXPONENT:
	case SIGN:
	case POWER:
		return take_in_number(s, c);
	default:
		return take_between(s, c);
	}
}

/* --- the text --- */

void json_stream_begin(
	struct json_stream *s, void (*on)(void *arg, const struct json_stream_token *t), void *arg)
{
	s->on = on;
	s->arg = arg;
	s->wrong = NULL;
	s->state = BEGIN;
	s->depth = 0;
	s->lead = 0;
	s->n = 0;
	s->cut = false;
}

bool json_stream_feed(struct json_stream *s, const void *data, size_t n)
{
	const char *at = data, *end = n ? at + n : at;

	while (at < end && !s->wrong) {
		size_t plain = s->state == STRING ? json_text_plain(at, (size_t)(end - at)) : 0;

		put(s, at, plain);
		at += plain;
		if (at < end && !take_byte(s, *at++))
			return false;
	}
	return !s->wrong;
}

bool json_stream_end(struct json_stream *s)
{
	return !s->wrong && (s->state == DONE || refuse(s, "its JSON is not complete"));
}
