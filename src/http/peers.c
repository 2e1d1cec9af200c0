#include "http/peers.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

enum { BUCKETS = 1024, GUESSERS = 1024, ADDRESS_MAX = 64 };

/* An address with recent wrong guesses. Another address may take its slot. */
struct guesser {
	uint64_t hash;
	uint64_t full_ns; /* when all its guesses are available again */
};

struct peers {
	uint64_t seed;
	struct peer *buckets[BUCKETS];
	struct guesser guessers[GUESSERS];
	uint8_t trusted[PEERS_TRUSTED_MAX][16];
	unsigned trusted_count;
};

struct peers *peers_new(void)
{
	struct peers *p = calloc(1, sizeof(*p));

	if (p) /* without randomness, an attacker could choose addresses that share a slot */
		(void)!getrandom(&p->seed, sizeof(p->seed), 0);
	return p;
}

void peers_free(struct peers *p)
{
	for (unsigned b = 0; p && b < BUCKETS; b++)
		while (p->buckets[b]) {
			struct peer *peer = p->buckets[b];

			p->buckets[b] = peer->next;
			free(peer);
		}
	free(p);
}

/* --- addresses --- */

/* Parses into IPv6 form; an IPv4 address is mapped. */
static bool parse(const char *text, uint8_t out[16])
{
	memset(out, 0, 16);
	if (inet_pton(AF_INET6, text, out) == 1)
		return true;
	memset(out + 10, 0xff, 2);
	return inet_pton(AF_INET, text, out + 12) == 1;
}

static bool is_ipv4(const uint8_t a[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(a, mapped, sizeof(mapped)) == 0;
}

static bool is_loopback(const uint8_t a[16])
{
	static const uint8_t six[16] = {[15] = 1};

	return is_ipv4(a) ? a[12] == 127 : memcmp(a, six, sizeof(six)) == 0;
}

static bool is_trusted(const struct peers *p, const uint8_t a[16])
{
	for (unsigned i = 0; i < p->trusted_count; i++)
		if (memcmp(p->trusted[i], a, 16) == 0)
			return true;
	return is_loopback(a);
}

/* Keeps only the part that counts. */
static void shorten(uint8_t a[16])
{
	if (!is_ipv4(a))
		memset(a + 8, 0, 8);
}

static uint64_t hash_of(const struct peers *p, const uint8_t a[16])
{
	uint64_t h = p->seed;

	for (unsigned i = 0; i < 16; i += 8) {
		uint64_t word;

		memcpy(&word, a + i, 8);
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

int peers_trust(struct peers *p, const char *address, struct error *e)
{
	if (p->trusted_count == PEERS_TRUSTED_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "at most %d proxies can be named",
			PEERS_TRUSTED_MAX);
	if (!parse(address, p->trusted[p->trusted_count]))
		return error_set(e, ERROR_USAGE, EINVAL, "'%s' is no IP address", address);
	p->trusted_count++;
	return 0;
}

/* --- connections --- */

struct peer *peers_join(struct peers *p, const char *address)
{
	bool known, trusted;
	struct peer **bucket, *peer;
	uint8_t a[16];

	known = parse(address, a);
	trusted = !known || is_trusted(p, a);
	if (!trusted)
		shorten(a);
	bucket = &p->buckets[hash_of(p, a) % BUCKETS];
	for (peer = *bucket; peer; peer = peer->next)
		if (memcmp(peer->address, a, sizeof(a)) == 0 && peer->trusted == trusted)
			break;
	if (!peer) {
		peer = calloc(1, sizeof(*peer));
		if (!peer)
			return NULL;
		memcpy(peer->address, a, sizeof(a));
		peer->trusted = trusted;
		peer->next = *bucket;
		*bucket = peer;
	}
	peer->connections++;
	return peer;
}

void peers_leave(struct peers *p, struct peer *peer)
{
	struct peer **at;

	if (!peer || --peer->connections)
		return;
	at = &p->buckets[hash_of(p, peer->address) % BUCKETS];
	while (*at != peer)
		at = &(*at)->next;
	*at = peer->next;
	free(peer);
}

/* --- guesses --- */

/* Takes the last address of a comma-separated list. */
static bool parse_forwarded(const char *list, uint8_t out[16])
{
	const char *comma = list ? strrchr(list, ',') : NULL, *from = comma ? comma + 1 : list;
	char text[ADDRESS_MAX];
	size_t n;

	while (from && isspace((unsigned char)*from))
		from++;
	n = from ? strcspn(from, " \t") : 0;
	if (!n || n >= sizeof(text))
		return false;
	memcpy(text, from, n);
	text[n] = '\0';
	return parse(text, out);
}

/* NULL: the client is unknown, and has no limit. */
static struct guesser *guesser_of(
	struct peers *p, const struct peer *peer, const char *forwarded, uint64_t *ret_hash)
{
	uint8_t a[16];

	if (!peer)
		return NULL;
	memcpy(a, peer->address, sizeof(a));
	if (peer->trusted && !parse_forwarded(forwarded, a))
		return NULL;
	shorten(a);
	*ret_hash = hash_of(p, a);
	return &p->guessers[(*ret_hash >> 32) % GUESSERS];
}

static const uint64_t guess_ns = NS_PER_S / PEERS_GUESSES_A_SECOND;

bool peers_may_guess(
	struct peers *p, const struct peer *peer, const char *forwarded, uint64_t now_ns)
{
	uint64_t hash = 0;
	const struct guesser *g = guesser_of(p, peer, forwarded, &hash);

	return !g || g->hash != hash || g->full_ns <= now_ns + (PEERS_GUESSES - 1) * guess_ns;
}

void peers_note_guess(
	struct peers *p, const struct peer *peer, const char *forwarded, uint64_t now_ns)
{
	uint64_t hash = 0;
	struct guesser *g = guesser_of(p, peer, forwarded, &hash);

	if (!g)
		return;
	if (g->hash != hash || g->full_ns < now_ns)
		*g = (struct guesser){.hash = hash, .full_ns = now_ns};
	g->full_ns += guess_ns;
}
