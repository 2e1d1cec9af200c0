/* Reads untrusted files: archives, packages, kernels. It runs only in mayfly-unpack, in a jail, and
 * in tests. It takes the file as a descriptor and passes its content to a sink as entries; it
 * writes no file. Only this module and its parts use libarchive.
 *
 *	job	file				entries
 *	tar	plain, gzip, bzip2, xz, zstd	all
 *	names	the same			all, with their sizes but without content
 *	archive	jar, zip or tar			the regular files below `folder`, named from there
 *	deb	a linux-image package		vmlinuz, config, modules/... (flat, with
 *						modules.builtin)
 *	kernel	bzImage or ELF			release (its text), vmlinux
 *	module	ELF, plain or compressed	depends (the text of .modinfo), module
 *	document JSON of an image		its values: see below */
#ifndef IMAGE_PARSE_H
#define IMAGE_PARSE_H

#include "base/error.h"
#include "image/tree.h"

enum parse_job {
	PARSE_TAR,
	PARSE_NAMES,
	PARSE_ARCHIVE,
	PARSE_DEB,
	PARSE_KERNEL,
	PARSE_MODULE,
	PARSE_DOCUMENT,
	PARSE_JOBS_
};

enum {
	PARSE_FILES_MAX = 100000,    /* of an archive or package; more are refused */
	PARSE_BYTES_MAX = 1 << 30,   /* of their content */
	PARSE_MODULE_MAX = 64 << 20, /* bytes of one module, unpacked */
	PARSE_DOCUMENT_MAX = 4 << 20 /* bytes of a document, the limit that registries have */
};

/* Each value of a document is an entry, a container before what is in it. The path is the members'
 * names and the lists' indexes, below PARSE_DOCUMENT_ROOT: "document/layers/0/size". The content is
 * one of these letters, and the text or the decimal number behind it. Members that no document of
 * an image needs are left out. */
#define PARSE_DOCUMENT_ROOT "document"
enum parse_value {
	PARSE_IS_OBJECT = 'o',
	PARSE_IS_LIST = 'l',
	PARSE_IS_TEXT = 't',
	PARSE_IS_NUMBER = 'n', /* an integer of 64 bits */
	PARSE_IS_NULL = '0',
	PARSE_IS_OTHER = 'x'
};

struct parse_options {
	enum parse_job job;
	const char *folder; /* PARSE_ARCHIVE only */
	int fd;		    /* borrowed */
};

/* Reads the file. ERROR_BAD_IMAGE when it is damaged or hostile; also any error of the sink. */
int parse(const struct parse_options *o, struct tree_sink *to, struct error *e);

/* "tar" and so on; the job or -EINVAL. */
const char *parse_job_name(enum parse_job job);
int parse_job_of(const char *name);

#endif
