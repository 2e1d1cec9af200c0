/* What the JSON documents of an image say, which are untrusted: index, manifest and configuration
 * (OCI image specification 1.1), docker's forms of them (manifest list, manifest schema 2), and the
 * manifest.json of `docker save`. document_tree.h reads them.
 *
 * Each function copies what Mayfly uses, with a limit for everything, and ignores the rest.
 * ERROR_BAD_IMAGE says which field is unusable. */
#ifndef OCI_DOCUMENT_H
#define OCI_DOCUMENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/parse.h"
#include "oci/digest.h"

enum {
	OCI_DOCUMENT_MAX = PARSE_DOCUMENT_MAX,
	OCI_LAYERS_MAX = 256,	 /* twice what docker makes */
	OCI_MANIFESTS_MAX = 256, /* of an index */
	OCI_STRINGS_MAX = 512,	 /* of a list */
	OCI_TRIGGERS_MAX = 64,	 /* of ONBUILD, each OCI_TEXT_MAX at most */
	OCI_MEDIA_TYPE_MAX = 128,
	OCI_PLATFORM_MAX = 32,
	OCI_NAME_MAX = 512,
	OCI_TEXT_MAX = 4096,
};

#define OCI_LAYER_BYTES_MAX (UINT64_C(16) << 30)

enum oci_media {
	OCI_MEDIA_OTHER,
	OCI_MEDIA_INDEX,
	OCI_MEDIA_MANIFEST,
	OCI_MEDIA_LAYER,
	OCI_MEDIA_FOREIGN, /* a layer whose licence keeps it out of registries */
	OCI_MEDIA_OLD,	   /* docker's first manifests, with signatures */
};

/* Refers to a blob, by its type, size and digest. */
struct oci_descriptor {
	enum oci_media media;
	uint64_t size; /* bytes */
	char digest[OCI_DIGEST_MAX];
	char media_type[OCI_MEDIA_TYPE_MAX];
	char os[OCI_PLATFORM_MAX], architecture[OCI_PLATFORM_MAX]; /* "" when not given */
	char name[OCI_NAME_MAX]; /* org.opencontainers.image.ref.name; "" when not given */
};

struct oci_strings {
	char **items; /* owned, as the array is */
	size_t count;
};

struct oci_index {
	struct oci_descriptor *items; /* owned */
	size_t count;
};

struct oci_manifest {
	struct oci_descriptor config;
	struct oci_descriptor *layers; /* owned, from the bottom */
	size_t layer_count;
};

/* The configuration of an image: how to run it, and its layers. */
struct oci_config {
	struct oci_strings env, entrypoint, command; /* "NAME=VALUE"; arguments */
	struct oci_strings diff_ids;		     /* digests of the layers, uncompressed */
	struct oci_strings triggers;		     /* OnBuild: instructions of a Dockerfile */
	char *user, *workdir;			     /* owned; "" when not given */
};

/* One image of a docker-archive. config and layers are names of files in the archive. */
struct oci_saved {
	char *config; /* owned */
	struct oci_strings layers, tags;
};

struct oci_saved_list {
	struct oci_saved *items; /* owned */
	size_t count;
};

/* Finds out what a document is: by its mediaType, or by its fields if it has none. */
enum oci_media oci_document_kind(const json_t *document);

int oci_index_take(const json_t *document, struct oci_index *ret, struct error *e);
int oci_manifest_take(const json_t *document, struct oci_manifest *ret, struct error *e);

/* Also refuses an image of another operating system or architecture. layers: the number of layers
 * in the manifest, which must match. */
int oci_config_take(const json_t *document, size_t layers, struct oci_config *ret, struct error *e);

int oci_saved_take(const json_t *document, struct oci_saved_list *ret, struct error *e);

void oci_index_done(struct oci_index *x);
void oci_manifest_done(struct oci_manifest *m);
void oci_config_done(struct oci_config *c);
void oci_saved_list_done(struct oci_saved_list *l);

#endif
