/* What registries and archives say about images: an error names what is wrong, and what is accepted
 * is within its limits. The first byte chooses the document. */
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/parse_internal.h"
#include "oci/challenge.h"
#include "oci/credentials.h"
#include "oci/document.h"
#include "oci/document_tree.h"
#include "oci/reference.h"

static void check_descriptor(const struct oci_descriptor *d)
{
	check(oci_digest_valid(d->digest));
	check(strlen(d->digest) < sizeof(d->digest));
}

static int take_index(const json_t *document, struct error *e)
{
	struct oci_index x;
	int r = oci_index_take(document, &x, e);

	if (r < 0)
		return r;
	check(x.count <= OCI_MANIFESTS_MAX);
	for (size_t i = 0; i < x.count; i++)
		check_descriptor(&x.items[i]);
	oci_index_done(&x);
	return 0;
}

static int take_manifest(const json_t *document, struct error *e)
{
	struct oci_manifest m;
	int r = oci_manifest_take(document, &m, e);

	if (r < 0)
		return r;
	check(m.layer_count <= OCI_LAYERS_MAX && m.config.size <= OCI_DOCUMENT_MAX);
	check_descriptor(&m.config);
	for (size_t i = 0; i < m.layer_count; i++) {
		check_descriptor(&m.layers[i]);
		check(m.layers[i].media == OCI_MEDIA_LAYER &&
			m.layers[i].size <= OCI_LAYER_BYTES_MAX);
	}
	oci_manifest_done(&m);
	return 0;
}

static int take_config(const json_t *document, struct error *e)
{
	struct oci_config c;
	int r = oci_config_take(document, 1, &c, e);

	if (r < 0)
		return r;
	check(c.diff_ids.count == 1 && c.user && c.workdir);
	check(c.env.count <= OCI_STRINGS_MAX && c.entrypoint.count <= OCI_STRINGS_MAX);
	oci_config_done(&c);
	return 0;
}

static int take_saved(const json_t *document, struct error *e)
{
	struct oci_saved_list l;
	int r = oci_saved_take(document, &l, e);

	if (r < 0)
		return r;
	check(l.count >= 1 && l.count <= OCI_MANIFESTS_MAX);
	for (size_t i = 0; i < l.count; i++)
		check(*l.items[i].config && l.items[i].layers.count <= OCI_LAYERS_MAX);
	oci_saved_list_done(&l);
	return 0;
}

static void print_reference(const struct oci_reference *r, char out[OCI_REFERENCE_MAX])
{
	(void)snprintf(out, OCI_REFERENCE_MAX, "%s/%s%s%s%s%s", r->registry, r->repository,
		*r->tag ? ":" : "", r->tag, *r->digest ? "@" : "", r->digest); /* fits */
}

static int parse_reference(const uint8_t *data, size_t size, struct error *e)
{
	char text[1024], whole[OCI_REFERENCE_MAX], again[OCI_REFERENCE_MAX];
	struct oci_reference ref;
	int r;

	size = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	r = oci_reference_parse(text, "r.example", &ref, e);
	if (r < 0)
		return r;
	check(oci_registry_valid(ref.registry) && (*ref.tag || *ref.digest));
	print_reference(&ref, whole);
	check(oci_reference_parse(whole, NULL, &ref, NULL) == 0);
	print_reference(&ref, again);
	check(strcmp(whole, again) == 0);
	return 0;
}

static int parse_challenge(const uint8_t *data, size_t size, struct error *e)
{
	struct oci_challenge c;
	char *text = strndup((const char *)data, size), *token = NULL;
	int r;

	check(text);
	if (oci_challenge_parse(text, &c))
		check(c.scheme == OCI_SCHEME_BASIC || (c.scheme == OCI_SCHEME_BEARER && *c.realm));
	free(text);
	r = oci_token_parse(data, size, &token, e);
	check((r == 0) == (token != NULL));
	check(!token || !strpbrk(token, "\r\n "));
	free(token);
	return r;
}

static int parse_credentials(const uint8_t *data, size_t size, struct error *e)
{
	struct oci_credentials c;

	oci_credentials_of_docker((const char *)data, size, "r.example", &c);
	check(!*c.text || (strchr(c.text, ':') && !strpbrk(c.text, "\r\n")));
	oci_credentials_done(&c);
	return 0;
}

static int read_values(const struct parse_options *o, struct tree_sink *to, struct error *e)
{
	return parse_document(o->fd, to, e);
}

/* A text on its way through the entries, as from the jail. */
static int read_document(const uint8_t *data, size_t size, json_t **ret, struct error *e)
{
	int fd = memfd_create("document", MFD_CLOEXEC), r;

	check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	r = oci_document_read(read_values, fd, "document", ret, e);
	(void)close(fd); /* memory */
	return r;
}

static int use_document(unsigned which, const uint8_t *data, size_t size, struct error *e)
{
	static int (*const takers[])(const json_t *, struct error *) = {
		take_index, take_manifest, take_config, take_saved};
	json_t *o = NULL;
	int r = read_document(data, size, &o, e);

	if (r == 0) {
		(void)oci_document_kind(o);
		r = takers[which](o, e);
	}
	json_decref(o);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const parsers[])(const uint8_t *, size_t, struct error *) = {
		parse_reference, parse_challenge, parse_credentials};
	struct error e = {0};
	unsigned which = size > 0 ? data[0] % 7 : 0;
	int r;

	if (size == 0)
		return 0;
	r = which < 4 ? use_document(which, data + 1, size - 1, &e)
		      : parsers[which - 4](data + 1, size - 1, &e);
	if (r < 0)
		check(e.code != ERROR_NONE && e.message[0]);
	return 0;
}
