/* `mayfly serve`: runs the daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "daemon/rights.h"
#include "daemon/self_signed.h"
#include "http/server.h"
#include "io/jailed.h"
#include "io/program.h"
#include "oci/mirror.h"
#include "oci/source.h"
#include "policy/network_floor.h"
#include "store/keys.h"

#define MIB	   (UINT64_C(1) << 20)
#define DISK_LIMIT (UINT64_C(1) << 44)

enum {
	HTTPS_PORT = 443,
	SANDBOXES_DEFAULT = 100,
	CREATES_DEFAULT = 600,
	LIFE_DEFAULT_S = 3600,
};

struct serve_options {
	struct cli_common common;
	const char *listen, *domain, *public_url, *tls_cert, *tls_key, *tls_self_signed;
	const char *jail, *metrics_listen, *log_level, *log_format;
	bool no_programs, metrics_public, webhook_allow_private, build_runtimes;
	const char *webhook_ca;
	const char *secrets_key, *guest_ca, *issuer, *build_registry;
	uint64_t token_life_ns, build_cache_max_ns;
	uint64_t peer_connections;
	struct option_list proxies;
	uint64_t connections, sandboxes, creates, timeout_ns;
	uint64_t cpus, memory_bytes, disk_bytes;
	struct quota_options quota;
	struct option_list pool, runtimes, mirrors;
	uint64_t pool_memory_bytes;
	struct kept_options kept;
	uint64_t aside_days, aside_bytes, activity_days;
	uint64_t kept_count, kept_all_count;
	const char *cgroup;
	uint64_t disk_rate, disk_ops;
	struct network_words network;
};

static const struct serve_options defaults = {
	.listen = "127.0.0.1:3000",
	.jail = "on",
	.connections = SERVER_CONNECTIONS,
	.sandboxes = SANDBOXES_DEFAULT,
	.creates = CREATES_DEFAULT,
	.timeout_ns = LIFE_DEFAULT_S * NS_PER_S,
	.cpus = SANDBOX_CPUS_MAX,
	.memory_bytes = SANDBOX_MEMORY_MB_MAX * MIB,
	.disk_bytes = SANDBOX_DISK_MB_MAX * MIB,
};

static const struct option_spec options[] = {
	{"listen", 'l', OPTION_STRING, "ADDRESS:PORT", "where to listen (127.0.0.1:3000)",
		offsetof(struct serve_options, listen), 0, 0, false},
	{"domain", 0, OPTION_STRING, "DOMAIN", "of sandboxes' host names, <port>-<id>.DOMAIN",
		offsetof(struct serve_options, domain), 0, 0, false},
	{"public-url", 0, OPTION_STRING, "URL",
		"where people reach this API, for links that decide approvals",
		offsetof(struct serve_options, public_url), 0, 0, false},
	{"tls-cert", 0, OPTION_STRING, "FILE",
		"speak TLS with this certificate and its chain (PEM), read again on SIGHUP",
		offsetof(struct serve_options, tls_cert), 0, 0, false},
	{"tls-key", 0, OPTION_STRING, "FILE", "the certificate's private key (PEM)",
		offsetof(struct serve_options, tls_key), 0, 0, false},
	{"tls-self-signed", 0, OPTION_OPTIONAL, "[=DOMAIN]",
		"speak TLS with a certificate of our own for *.DOMAIN (mayfly.localhost)",
		offsetof(struct serve_options, tls_self_signed), 0, 0, false},
	{"metrics-listen", 0, OPTION_STRING, "ADDRESS:PORT",
		"serve Prometheus metrics there too, without a key",
		offsetof(struct serve_options, metrics_listen), 0, 0, false},
	{"metrics-public", 0, OPTION_FLAG, NULL,
		"allow --metrics-listen on an address that other hosts can reach",
		offsetof(struct serve_options, metrics_public), 0, 0, false},
	{"webhook-allow-private", 0, OPTION_FLAG, NULL,
		"keys' webhooks may be on loopback and private addresses",
		offsetof(struct serve_options, webhook_allow_private), 0, 0, false},
	{"webhook-ca", 0, OPTION_STRING, "FILE",
		"authorities that vouch for webhooks (PEM), instead of this host's",
		offsetof(struct serve_options, webhook_ca), 0, 0, false},
	{"secrets-key", 0, OPTION_STRING, "FILE",
		"key that secrets are sealed with; made if there is none (secrets.key, in the "
		"state directory)",
		offsetof(struct serve_options, secrets_key), 0, 0, false},
	{"issuer", 0, OPTION_STRING, "URL",
		"where services find the keys of sandboxes' tokens (this daemon's own address)",
		offsetof(struct serve_options, issuer), 0, 0, false},
	{"token-life", 0, OPTION_DURATION, "TIME",
		"of sandboxes' tokens, renewed after half of it (10m)",
		offsetof(struct serve_options, token_life_ns), NS_PER_S, 86400 * NS_PER_S, false},
	{"guest-ca", 0, OPTION_STRING, "FILE",
		"certificates of authorities that all sandboxes trust, as companies have them",
		offsetof(struct serve_options, guest_ca), 0, 0, false},
	{"build-registry", 0, OPTION_STRING, "HOST[/PATH]",
		"the registry of images that clients' builds name without one; PATH is for names "
		"without a /",
		offsetof(struct serve_options, build_registry), 0, 0, false},
	{"registry-mirror", 0, OPTION_LIST, "[REGISTRY=]HOST[/PATH]",
		"is asked for images before that registry (default: Docker Hub; repeatable)",
		offsetof(struct serve_options, mirrors), 0, 0, false},
	{"build-cache-max-age", 0, OPTION_DURATION, "TIME",
		"clients' builds run steps again that were kept longer (default: any age)",
		offsetof(struct serve_options, build_cache_max_ns), NS_PER_S,
		10 * 365 * 86400 * NS_PER_S, false},
	{"runtime", 0, OPTION_LIST, "NAME=TEMPLATE",
		"what clients mean that request the runtime NAME; an image's template is "
		"NAME=image:REFERENCE (repeatable; built in are base, python-3.12, node-20 and "
		"deno)",
		offsetof(struct serve_options, runtimes), 0, 0, false},
	{"build-runtimes", 0, OPTION_FLAG, NULL,
		"build the template of a runtime when a client first asks for it",
		offsetof(struct serve_options, build_runtimes), 0, 0, false},
	{"log-level", 0, OPTION_STRING, "LEVEL", "error, warn (also without), info or debug",
		offsetof(struct serve_options, log_level), 0, 0, false},
	{"log-format", 0, OPTION_STRING, "FORMAT", "text or json",
		offsetof(struct serve_options, log_format), 0, 0, false},
	{"max-sandboxes", 0, OPTION_NUMBER, "N", "of one key at the same time (100)",
		offsetof(struct serve_options, sandboxes), 1, 1000000, false},
	{"max-creates", 0, OPTION_NUMBER, "N", "of one key in a minute (600), 0: any number",
		offsetof(struct serve_options, creates), 0, 1000000, false},
	{"max-timeout", 0, OPTION_DURATION, "TIME",
		"longest time that a sandbox may ask for (1h), 0: any",
		offsetof(struct serve_options, timeout_ns), 0, UINT64_MAX, false},
	{"max-cpus", 0, OPTION_NUMBER, "N", "of one sandbox (4)",
		offsetof(struct serve_options, cpus), 1, SANDBOX_CPUS_MAX, false},
	{"max-memory", 0, OPTION_BYTES, "SIZE", "of one sandbox (4G)",
		offsetof(struct serve_options, memory_bytes), SANDBOX_MEMORY_MB_MIN *MIB,
		SANDBOX_MEMORY_MB_MAX *MIB, false},
	{"max-disk", 0, OPTION_BYTES, "SIZE", "of one sandbox (10G)",
		offsetof(struct serve_options, disk_bytes), 64 * MIB, DISK_LIMIT, false},
	{"max-kept", 0, OPTION_NUMBER, "N", "paused sandboxes and snapshots of one key (500)",
		offsetof(struct serve_options, kept_count), 1, 1000000, false},
	{"max-kept-size", 0, OPTION_BYTES, "SIZE",
		"what they may take of the disk (a quarter of it)",
		offsetof(struct serve_options, kept.key_bytes), 1, INT64_MAX, false},
	{"all-kept", 0, OPTION_NUMBER, "N", "paused sandboxes and snapshots of all keys (10000)",
		offsetof(struct serve_options, kept_all_count), 1, 1000000, false},
	{"all-kept-size", 0, OPTION_BYTES, "SIZE", "what they may take of the disk (75 %)",
		offsetof(struct serve_options, kept.all_bytes), 1, INT64_MAX, false},
	{"disk-reserve", 0, OPTION_BYTES, "SIZE",
		"of the disk that pauses and snapshots leave free (2 %, at most 2G)",
		offsetof(struct serve_options, kept.reserve_bytes), 1, INT64_MAX, false},
	{"activity-days", 0, OPTION_NUMBER, "N",
		"days to keep a sandbox's activity after its end (7)",
		offsetof(struct serve_options, activity_days), 1, 36500, false},
	{"no-programs", 0, OPTION_FLAG, NULL,
		"do not record programs that other programs in sandboxes start",
		offsetof(struct serve_options, no_programs), 0, 0, false},
	{"aside-days", 0, OPTION_NUMBER, "N",
		"days to keep states that the database does not know (7)",
		offsetof(struct serve_options, aside_days), 1, 36500, false},
	{"aside-size", 0, OPTION_BYTES, "SIZE", "what they may take of the disk (10 %)",
		offsetof(struct serve_options, aside_bytes), 1, INT64_MAX, false},
	{"memory-limit", 0, OPTION_BYTES, "SIZE",
		"promised to all sandboxes together (90 % of this host's)",
		offsetof(struct serve_options, quota.memory_bytes), 0, INT64_MAX, false},
	{"cpu-overcommit", 0, OPTION_NUMBER, "N",
		"CPUs promised to all sandboxes for each of this host's (32)",
		offsetof(struct serve_options, quota.cpu_overcommit), 1, 1000000, false},
	{"disk-overcommit", 0, OPTION_NUMBER, "N",
		"times the disk's size promised to all sandboxes (4)",
		offsetof(struct serve_options, quota.disk_overcommit), 1, 1000000, false},
	{"pool", 0, OPTION_LIST, "N|TEMPLATE=N",
		"VMs kept ready of each template in use (0); of that one, always",
		offsetof(struct serve_options, pool), 0, 0, false},
	{"pool-memory", 0, OPTION_BYTES, "SIZE",
		"promised to those together (a quarter of --memory-limit)",
		offsetof(struct serve_options, pool_memory_bytes), 0, INT64_MAX, false},
	CLI_OPTION_JAIL(struct serve_options),
	{"max-connections", 0, OPTION_NUMBER, "N", "of clients (4096)",
		offsetof(struct serve_options, connections), 16, 1000000, false},
	{"max-connections-per-address", 0, OPTION_NUMBER, "N",
		"of clients of one address (a quarter of --max-connections)",
		offsetof(struct serve_options, peer_connections), 1, 1000000, false},
	{"proxy", 0, OPTION_LIST, "ADDRESS",
		"a reverse proxy, which --max-connections-per-address does not limit; loopback "
		"always counts as one",
		offsetof(struct serve_options, proxies), 0, 0, false},
	{"cgroup", 0, OPTION_STRING, "DIRECTORY",
		"cgroup v2 directory for sandboxes' groups (the daemon's own, if delegated), or "
		"off",
		offsetof(struct serve_options, cgroup), 0, 0, false},
	{"disk-rate", 0, OPTION_BYTES, "SIZE",
		"a second that a sandbox may read, and write, of the disk (any)",
		offsetof(struct serve_options, disk_rate), MIB, INT64_MAX, false},
	{"disk-ops", 0, OPTION_NUMBER, "N", "a second, likewise (any)",
		offsetof(struct serve_options, disk_ops), 10, INT64_MAX, false},
	{"network", 0, OPTION_STRING, "WORD",
		"of sandboxes: on (also without), off, or allow-list: only what is allowed here",
		offsetof(struct serve_options, network.mode), 0, 0, false},
	{"max-flows", 0, OPTION_NUMBER, "N", "connections of one sandbox at the same time (512)",
		offsetof(struct serve_options, network.flows), 1, NETWORK_FLOWS_MAX, false},
	{"max-key-flows", 0, OPTION_NUMBER, "N", "of all sandboxes of one key, likewise (8192)",
		offsetof(struct serve_options, network.key_flows), 1, NETWORK_ALL_FLOWS_MAX, false},
	{"max-host-flows", 0, OPTION_NUMBER, "N", "of all sandboxes, likewise (16384)",
		offsetof(struct serve_options, network.host_flows), 1, NETWORK_ALL_FLOWS_MAX,
		false},
	{"egress-allow", 0, OPTION_LIST, "HOST|CIDR[:PORT]",
		"with --network allow-list: what sandboxes may reach (repeatable)",
		offsetof(struct serve_options, network.allow), 0, 0, false},
	{"egress-allow-private", 0, OPTION_LIST, "CIDR",
		"private addresses that sandboxes may reach (repeatable)",
		offsetof(struct serve_options, network.private), 0, 0, false},
	{"egress-hosts", 0, OPTION_STRING, "FILE",
		"names for sandboxes, lines of ADDRESS[:PORT] NAME..., as /etc/hosts",
		offsetof(struct serve_options, network.hosts), 0, 0, false},
	{"egress-roots", 0, OPTION_STRING, "FILE",
		"authorities of TLS servers, in PEM, besides those of this host",
		offsetof(struct serve_options, network.roots), 0, 0, false},
	{"egress-proxy", 0, OPTION_STRING, "HOST:PORT",
		"a SOCKS5 proxy that all connections of sandboxes go through",
		offsetof(struct serve_options, network.proxy), 0, 0, false},
	{"egress-proxy-login", 0, OPTION_STRING, "FILE", "its login: one line USER:PASSWORD",
		offsetof(struct serve_options, network.proxy_login), 0, 0, false},
	{"policy", 0, OPTION_STRING, "FILE", "policy that holds for all sandboxes (docs/policy.md)",
		offsetof(struct serve_options, network.policy), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int has_key(void *arg, const struct store_key *k)
{
	return k->revoked_ns == 0;
}

/* Anybody who reaches the port and has a key can run programs here. While no key exists, only users
 * of this host should reach it. */
static int check_exposure(const struct daemon *d, const struct serve_options *o, struct error *e)
{
	struct sockaddr_storage a;
	bool loopback = false;
	int r = server_parse_listen(o->listen, &a, &loopback, e);

	if (r < 0 || loopback)
		return r;
	r = store_key_list(d->fleet.store, NULL, has_key, NULL, e);
	if (r == 0)
		return error_set(e, ERROR_USAGE, EACCES,
			"%s can be reached from other hosts and there is no API key: mayfly keys "
			"create, then start again",
			o->listen);
	return r < 0 ? r : 0;
}

/* What clients have to know. */
static void tell(const struct daemon *d)
{
	unsigned port = d->server->port;
	const char *ca = d->self_signed ? self_signed_ca(d->self_signed) : NULL;

	if (!ca) {
		fprintf(stderr,
			"mayfly listens on port %u: set E2B_API_URL and E2B_SANDBOX_URL to it\n",
			port);
		return;
	}
	fprintf(stderr, "mayfly listens on port %u: set E2B_DOMAIN=%s", port,
		d->options.tls_self_signed);
	if (port != HTTPS_PORT)
		fprintf(stderr, ":%u", port);
	fprintf(stderr,
		"\nclients trust it with SSL_CERT_FILE=%s (Python, curl, OpenSSL) or "
		"NODE_EXTRA_CA_CERTS=%s (Node)\n",
		ca, ca);
}

static int serve(struct daemon *d, const struct serve_options *o, struct error *e)
{
	int r = check_exposure(d, o, e);

	if (r < 0)
		return r;
	tell(d);
	return daemon_run(d, e);
}

static const char *own_domain(const struct serve_options *o)
{
	return o->domain ? o->domain : SELF_SIGNED_DOMAIN;
}

/* The launcher is made before the daemon has anything to hide. */
static int prepare_jail(const char *word, struct error *e)
{
	int r = jailed_configure(word, e);

	rights_raise();
	if (r == 0)
		r = jailed_prepare(NULL, e);
	return r;
}

static int check_public_url(const char *url, struct error *e)
{
	bool good = str_starts_with(url, "https://") || str_starts_with(url, "http://");

	if (good && !str_ends_with(url, "/") && !strpbrk(url, "?# \"<>"))
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"--public-url must begin with https:// or http:// and have no slash at its end, "
		"like https://mayfly.example.com:3000");
}

/* Runtimes NAME=image:REFERENCE are for `template build --from`, which is to know the reference. */
static int check_image(const char *runtime, struct error *e)
{
	static const char prefix[] = "image:";
	const char *equals = strchr(runtime, '=');
	struct oci_source source = {.path = NULL};
	int r;

	if (!equals || !str_starts_with(equals + 1, prefix))
		return 0;
	r = oci_source_parse(equals + sizeof(prefix), NULL, &source, e);
	oci_source_done(&source);
	if (r < 0)
		error_prefix(e, "--runtime %.80s", runtime);
	return r;
}

/* What all sandboxes share. The pool and the network's floor come later. */
static struct fleet_options fleet_options_of(const struct serve_options *o)
{
	struct fleet_options f = {
		.sandboxes_max = (uint32_t)o->sandboxes,
		.creates_per_minute = (uint32_t)o->creates,
		.timeout_max_ns = o->timeout_ns,
		.token_life_s = o->token_life_ns / NS_PER_S,
		.sizes_max = {(unsigned)o->cpus, o->memory_bytes, o->disk_bytes},
		.quota = o->quota,
		.kept = o->kept,
		.pool.memory_bytes = o->pool_memory_bytes,
		.build_registry = o->build_registry,
		.build_cache_max_ns = o->build_cache_max_ns,
		.mirrors = &o->mirrors,
		.runtimes = &o->runtimes,
		.build_runtimes = o->build_runtimes,
		.public_url = o->public_url,
		.activity_ns = o->activity_days * 86400 * NS_PER_S,
		.no_programs = o->no_programs,
		.aside = {(uint32_t)o->aside_days, o->aside_bytes},
	};

	f.kept.key_count = (uint32_t)o->kept_count;
	f.kept.all_count = (uint32_t)o->kept_all_count;
	return f;
}

static struct daemon_options daemon_options_of(const struct serve_options *o)
{
	struct daemon_options d = {
		.listen = o->listen,
		.domain = o->domain,
		.tls_cert = o->tls_cert,
		.tls_key = o->tls_key,
		.metrics_listen = o->metrics_listen,
		.metrics_public = o->metrics_public,
		.webhook_allow_private = o->webhook_allow_private,
		.webhook_ca = o->webhook_ca,
		.secrets_key = o->secrets_key,
		.guest_ca = o->guest_ca,
		.issuer = o->issuer,
		.log_level = o->log_level,
		.log_format = o->log_format,
		.connections_max = (uint32_t)o->connections,
		.peer_connections_max = (uint32_t)o->peer_connections,
		.proxies = o->proxies.items,
		.proxy_count = o->proxies.count,
		.cgroup = o->cgroup,
		.disk_rate = o->disk_rate,
		.disk_ops = o->disk_ops,
		.drop_rights = true,
		.fleet = fleet_options_of(o),
	};

	if (o->tls_self_signed)
		d.tls_self_signed = *o->tls_self_signed ? o->tls_self_signed : own_domain(o);
	return d;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct serve_options *o = values;
	struct daemon_options wanted = daemon_options_of(o);
	struct network_floor *network = NULL;
	struct daemon *d = NULL;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0 && o->public_url)
		r = check_public_url(o->public_url, e);
	if (r == 0)
		r = oci_mirrors_check(&o->mirrors, e);
	for (unsigned n = 0; r == 0 && n < o->runtimes.count; n++)
		r = check_image(o->runtimes.items[n], e);
	for (unsigned n = 0; r == 0 && n < o->pool.count; n++)
		r = stock_parse_option(&wanted.fleet.pool, o->pool.items[n], e);
	if (r == 0)
		r = network_floor_make(&o->network, &network, e);
	wanted.fleet.network = network;
	if (r == 0)
		r = prepare_jail(o->jail, e);
	if (r == 0) {
		program_keep("mayfly-vmm");
		r = daemon_start(&wanted, &d, e);
	}
	if (r == 0 && jailed_weakness())
		log_warn("%s", jailed_weakness());
	if (r == 0)
		r = serve(d, o, e);
	daemon_free(d);
	network_floor_free(network);
	return r;
}

const struct cli_verb cli_verb_serve = {
	.name = "serve",
	.arguments = "",
	.summary = "Serve the E2B API",
	.description =
		"One port for everything: the control API, the API inside of sandboxes, and their "
		"users' ports. Programs that use the E2B SDKs need E2B_API_URL and "
		"E2B_SANDBOX_URL set to http://ADDRESS:PORT and E2B_API_KEY to a key of mayfly "
		"keys create. Sandboxes outlive the daemon: a later one finds them again.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct serve_options),
	.run = run,
};
