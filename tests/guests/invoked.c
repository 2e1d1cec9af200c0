#include "invoked.h"

#include "driver.h"
#include "proto/agent_wire.h"

enum {
	PROMPT_MAX = 64 * 1024,
	MIB = 1024 * 1024,
	LOOKED_AT = 24 * MIB, /* behind the guest's own memory */
	LOOKED_BYTES = 4 * MIB,
	PAGE = 4096,
	DISK_BYTES = 16 * PAGE, /* from its beginning */
	SECTOR = 512,
	RANDOM_BYTES = 16,
	ENTROPY_MAX = 512,
};

static uint8_t prompt[PROMPT_MAX];
static uint32_t prompt_bytes;
static uint32_t invocations; /* since the guest started: a copy of it begins with 0, too */

static struct {
	uint64_t realtime_ns;
	uint8_t entropy[RANDOM_BYTES];
	char hostname[128], machine_id[64];
} told;

static struct ring rng_ring, disk_ring;
static uint8_t block[PAGE] __attribute__((aligned(4096)));

/* --- what it was told --- */

static const uint8_t *take_text(const uint8_t *p, char *to, uint32_t max)
{
	uint32_t n;

	memcpy(&n, p, sizeof(n));
	CHECK(n < max);
	memcpy(to, p + sizeof(n), n + 1); /* with its NUL */
	return p + sizeof(n) + n + 1;
}

void invoked_identity(const uint8_t *payload, uint32_t n)
{
	const uint8_t *p = payload;
	uint32_t fields, entropy;

	memcpy(&fields, p, sizeof(fields));
	if (!(fields & AGENT_ID_HOSTNAME))
		return; /* only the time, once more */
	memcpy(&told.realtime_ns, p + 4, sizeof(told.realtime_ns));
	memcpy(&entropy, p + 12, sizeof(entropy));
	CHECK(entropy >= RANDOM_BYTES && entropy <= ENTROPY_MAX);
	memcpy(told.entropy, p + 16, RANDOM_BYTES);
	p = take_text(p + 16 + entropy, told.hostname, sizeof(told.hostname));
	(void)take_text(p, told.machine_id, sizeof(told.machine_id));
}

void invoked_input(const uint8_t *data, uint32_t n)
{
	CHECK(prompt_bytes + n <= sizeof(prompt));
	memcpy(prompt + prompt_bytes, data, n);
	prompt_bytes += n;
}

/* --- what it finds --- */

static uint32_t count_used(const volatile uint64_t *at, uint32_t bytes)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < bytes / sizeof(*at); i++)
		used += at[i] != 0;
	return used;
}

/* Words of memory that are not 0, before the mark is written to each page. */
static uint32_t look_at_memory(uint64_t mark)
{
	uint32_t used = count_used((const volatile uint64_t *)(uint64_t)LOOKED_AT, LOOKED_BYTES);

	for (uint32_t i = 0; i < LOOKED_BYTES; i += PAGE)
		*(volatile uint64_t *)(uint64_t)(LOOKED_AT + i) = mark;
	return used;
}

/* The same of the disk. */
static uint32_t look_at_disk(uint64_t mark)
{
	struct block b;
	uint32_t used = 0;

	block_open(&b, SLOT_DISK, 0, &disk_ring);
	for (uint32_t at = 0; at < DISK_BYTES; at += PAGE) {
		CHECK(block_request(&b, VIRTIO_BLK_T_IN, at / SECTOR, block, PAGE) ==
			VIRTIO_BLK_S_OK);
		used += count_used((const uint64_t *)(const void *)block, PAGE);
		memcpy(block, &mark, sizeof(mark));
		CHECK(block_request(&b, VIRTIO_BLK_T_OUT, at / SECTOR, block, PAGE) ==
			VIRTIO_BLK_S_OK);
	}
	return used;
}

static void draw(uint8_t out[RANDOM_BYTES])
{
	struct device d;
	struct queue q;
	uint16_t head;
	uint32_t len;

	device_open(&d, SLOT_RNG, 0);
	queue_open(&q, &d, 0, &rng_ring);
	device_start(&d);
	(void)queue_add(&q, &(struct segment){out, RANDOM_BYTES, true}, 1);
	queue_notify(&q);
	CHECK(queue_take(&q, &head, &len) && len == RANDOM_BYTES);
}

/* --- its answer --- */

struct text {
	char bytes[1024];
	uint32_t n;
};

static void say(struct text *t, const char *s)
{
	uint32_t n = (uint32_t)strlen(s);

	CHECK(t->n + n <= sizeof(t->bytes));
	memcpy(t->bytes + t->n, s, n);
	t->n += n;
}

static void say_number(struct text *t, uint64_t v)
{
	char digits[21] = "";
	unsigned at = sizeof(digits) - 1;

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	say(t, digits + at);
}

static void say_hex(struct text *t, const uint8_t *p)
{
	for (unsigned i = 0; i < RANDOM_BYTES; i++) {
		const char two[] = {
			"0123456789abcdef"[p[i] >> 4], "0123456789abcdef"[p[i] & 15], '\0'};

		say(t, two);
	}
}

/* "traces N count N time NS random HEX told HEX host NAME machine HEX". traces: words of memory and
 * disk that are not 0. count: earlier invocations. told: the
 * beginning of the entropy that the host gave. */
static void print_findings(uint64_t mark, uint32_t before, invoked_output output, void *arg)
{
	struct text t = {.n = 0};
	uint8_t random[RANDOM_BYTES];

	say(&t, "traces ");
	say_number(&t, look_at_memory(mark) + look_at_disk(mark));
	say(&t, " count ");
	say_number(&t, before);
	say(&t, " time ");
	say_number(&t, told.realtime_ns);
	draw(random);
	say(&t, " random ");
	say_hex(&t, random);
	say(&t, " told ");
	say_hex(&t, told.entropy);
	say(&t, " host ");
	say(&t, told.hostname);
	say(&t, " machine ");
	say(&t, told.machine_id);
	output(arg, t.bytes, t.n);
}

bool invoked_run(invoked_output output, void *arg)
{
	static const char look[] = "look ";
	uint32_t n = prompt_bytes, before = invocations++;
	uint64_t mark = 0;

	prompt_bytes = 0; /* the next one's may follow */
	if (n >= 4 && memcmp(prompt, "stay", 4) == 0) {
		output(arg, "here", 4);
		return false;
	}
	if (n < sizeof(look) - 1 + sizeof(mark) || memcmp(prompt, look, sizeof(look) - 1) != 0) {
		output(arg, prompt, n);
		return true;
	}
	memcpy(&mark, prompt + sizeof(look) - 1, sizeof(mark));
	print_findings(mark, before, output, arg);
	return true;
}
