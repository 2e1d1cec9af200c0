/* Digests of content: "sha256:" and 64 hexadecimal digits (OCI image specification, descriptor.md).
 * Other algorithms are refused: nobody uses them, and each would be one more thing to trust. */
#ifndef OCI_DIGEST_H
#define OCI_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

enum {
	OCI_HEX_MAX = 65,    /* with its NUL */
	OCI_DIGEST_MAX = 72, /* likewise, with the algorithm */
};

/* Whether text is a digest, as described above. Upper-case digits are not. */
bool oci_digest_valid(const char *text);

/* The hexadecimal part of a valid digest. */
const char *oci_digest_hex(const char *digest);

/* Digests bytes that come in pieces. */
struct oci_hash;
struct oci_hash *oci_hash_new(void); /* NULL: out of memory */
int oci_hash_add(struct oci_hash *h, const void *data, size_t n);
int oci_hash_end(struct oci_hash *h, char out[OCI_DIGEST_MAX]); /* begins anew afterwards */
void oci_hash_free(struct oci_hash *h);				/* NULL is fine */

#endif
