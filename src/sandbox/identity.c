#include "sandbox/identity.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/str.h"

enum {
	ENTROPY_BYTES = 64,
	MACHINE_ID_BYTES = 16,
	CLOCK_ERROR_MS = 5, /* if telling the time took longer, it is told again */
	CLOCK_TRIES = 10,
};

static const struct agent_hello hello = {.version_min = 1, .version_max = AGENT_PROTOCOL_VERSION};

/* Sends the identity. Reads the time as late as possible. */
static int tell(struct identity *i, struct agent_conn *c, struct agent_identity *m, struct error *e)
{
	i->told++;
	i->told_ns = clock_monotonic_ns();
	m->realtime_ns = clock_realtime_ns();
	return agent_request(c, AGENT_IDENTITY, m, e);
}

/* Derives the machine id from the name, so it is the same when the sandbox boots again from its
 * disk. */
static int machine_id_of(const char *name, char ret[2 * MACHINE_ID_BYTES + 1], struct error *e)
{
	char text[128] = "machine id of ";
	uint8_t digest[EVP_MAX_MD_SIZE];
	size_t n = strlen(text), len = strlen(name);

	if (len > sizeof(text) - n)
		return error_set(
			e, ERROR_INTERNAL, ENAMETOOLONG, "host name '%s' is too long", name);
	memcpy(text + n, name, len);
	if (!EVP_Digest(text, n + len, digest, NULL, EVP_sha256(), NULL))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "SHA-256");
	str_hex(digest, MACHINE_ID_BYTES, ret);
	return 0;
}

static int fill_random(void *data, size_t n, struct error *e)
{
	/* up to 256 bytes come whole or not at all */
	if (getrandom(data, n, 0) != (ssize_t)n)
		return error_set_errno(e, ERROR_INTERNAL, errno, "getrandom");
	return 0;
}

/* A guest that comes back with its memory knows who it is. Only the world around it has changed. */
static uint32_t fields(const struct identity_of *of)
{
	uint32_t f = AGENT_ID_CLOCK | AGENT_ID_ENTROPY | AGENT_ID_ENV;

	if (!of->itself)
		f |= AGENT_ID_HOSTNAME | AGENT_ID_MACHINE_ID | AGENT_ID_USER | AGENT_ID_WORKDIR;
	return of->disk_bytes ? f | AGENT_ID_DISK : f;
}

int identity_queue(
	struct identity *i, struct agent_conn *c, const struct identity_of *of, struct error *e)
{
	uint8_t entropy[ENTROPY_BYTES];
	char machine_id[2 * MACHINE_ID_BYTES + 1];
	struct agent_identity m = {
		.fields = fields(of),
		.entropy = entropy,
		.entropy_bytes = sizeof(entropy),
		.hostname = of->hostname,
		.machine_id = machine_id,
		.env = {.array = of->env, .count = of->env_count},
		.user = of->user,
		.workdir = of->workdir,
		.disk_bytes = of->disk_bytes,
	};
	int r = machine_id_of(of->hostname, machine_id, e);

	if (r == 0)
		r = fill_random(entropy, sizeof(entropy), e);
	if (r < 0)
		return r;
	r = agent_request(c, AGENT_HELLO, &hello, e);
	if (r == 0)
		r = tell(i, c, &m, e);
	explicit_bzero(entropy, sizeof(entropy));
	return r;
}

int identity_queue_look(struct agent_conn *c, struct error *e)
{
	int r = agent_request(c, AGENT_HELLO, &hello, e);

	return r == 0 ? agent_request(c, AGENT_FREEZE, NULL, e) : r;
}

int identity_take_hello(struct identity *i, const struct agent_hello_reply *h, const char *template,
	struct error *e)
{
	if (h->version == 0)
		return error_set(e, ERROR_INCOMPATIBLE, EPROTONOSUPPORT,
			"template '%s' has an agent of protocol versions %u to %u, this program "
			"speaks 1 to %d: mayfly template build --force %s",
			template, h->version_min, h->version_max, AGENT_PROTOCOL_VERSION, template);
	if (h->state != AGENT_STATE_READY)
		return error_set(e, ERROR_BAD_IMAGE, ENOEXEC,
			"the image of template '%s' cannot be used: %s", template,
			*h->problem ? h->problem : "the agent does not say why");
	i->host_clock = h->facts & AGENT_FACT_HOST_CLOCK;
	return 0;
}

/* Tells the time again if it took too long. The first time includes the guest's restore; later ones
 * are short. */
static int check_clock(struct identity *i, struct agent_conn *c, struct error *e)
{
	struct agent_identity again = {.fields = AGENT_ID_CLOCK};
	int r;

	if (i->host_clock || i->told == CLOCK_TRIES ||
		clock_monotonic_ns() - i->told_ns <= CLOCK_ERROR_MS * NS_PER_MS)
		return 1;
	r = tell(i, c, &again, e);
	return r < 0 ? r : 0;
}

int identity_take(struct identity *i, struct agent_conn *c, const struct agent_identity_reply *m,
	struct error *e)
{
	for (unsigned n = 0; n < AGENT_ID_FIELDS; n++)
		if (m->failed & (1u << n))
			return error_set(e, ERROR_SANDBOX, EIO, "the guest cannot set its %s: %s",
				agent_id_name(n), strerror((int)(m->errs[n] & 0xfff)));
	return check_clock(i, c, e);
}
