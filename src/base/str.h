/* Strings: bounded parsing and formatting. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, the whole string; 0, -EINVAL or -ERANGE. */
int str_parse_u64(const char *s, uint64_t *ret);

/* Parses "512", "512M", "4G" or "1.5G": K, M, G, T are powers of 1024, B or iB may follow. A bare
 * number counts in `unit` bytes. */
int str_parse_bytes(const char *s, uint64_t unit, uint64_t *ret);

/* Parses "90", "90s", "500ms", "5m", "2h" or "1d"; a bare number is seconds. */
int str_parse_duration_ns(const char *s, uint64_t *ret);

/* FNV-1a. Stays the same in all versions. Anyone can choose texts with the same hash. */
uint64_t str_hash64(const char *s);

bool str_starts_with(const char *s, const char *prefix);
bool str_ends_with(const char *s, const char *suffix);

/* Whether s is a valid name for a template and the like: 1-64 characters of a-z 0-9 . _ -, the
 * first a letter or digit. */
bool str_is_name(const char *s);
/* The same, but a tag may follow: NAME:TAG, the tag of 1 or more of these characters, 64 in all. */
bool str_is_tagged_name(const char *s);

enum { STR_UUID_BYTES = 37 };

/* Writes 16 bytes as "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" and sets the version (4: random, 8: of
 * our own making) and the variant of RFC 9562. Changes these bits in `bytes` as well. */
void str_uuid(uint8_t bytes[16], unsigned version, char out[STR_UUID_BYTES]);

/* A random (version 4) UUID; 0 or -errno. */
int str_random_uuid(char out[STR_UUID_BYTES]);

/* Lower-case hexadecimal; out holds 2 * n + 1 bytes. */
void str_hex(const void *data, size_t n, char *out);

/* The value of a hexadecimal digit of either case, or -1. */
int str_hex_digit(char c);

/* Reads n bytes from the first 2 * n digits of text, and does not look at what follows. False if
 * one is no digit; then `out` may have changed. */
bool str_from_hex(const char *text, size_t n, void *out);

/* Fills out with n - 1 random characters of a-z 0-9 (5.1 bits each) and a NUL; 0 or -errno. */
int str_random_id(char *out, size_t n);

/* Returns the length of the longest prefix of s (n bytes of UTF-8) that has at most max bytes and
 * ends at a character's end. */
size_t str_cut(const char *s, size_t n, size_t max);

/* Formats for people: "512 MB", "1.5 GB". */
const char *str_format_bytes(uint64_t bytes, char out[16]);

/* asprintf that returns NULL on failure. */
char *str_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
