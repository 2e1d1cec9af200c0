/* What the files of the builder share: builder.c (stages and steps), builder_image.c (what becomes
 * of the last one). */
#ifndef BUILD_BUILDER_INTERNAL_H
#define BUILD_BUILDER_INTERNAL_H

#include "build/builder.h"
#include "build/files.h"
#include "build/machine.h"
#include "build/stage.h"
#include "image/workdir.h"
#include "oci/digest.h"

enum { BUILDER_NAME_BYTES = 32 };

/* An image that --from names. */
struct import {
	char *name; /* owned */
	struct stage_state state;
};

/* A file that ADD fetched. */
struct fetched_file {
	char *url; /* owned */
	int fd;	   /* without a name */
	char digest[OCI_DIGEST_MAX];
};

enum { BUILDER_FETCHED_MAX = 64 };

struct builder {
	const struct builder_options *o;
	struct workdir w; /* becomes images/<name> */
	struct home work; /* in it: bases and stages */
	struct vars global;
	struct image_config config; /* sizes */
	struct stage_state *done;   /* of each stage: what it hands on */
	char **bases;		    /* of each stage: what FROM names, expanded; owned */
	bool needed[DOCKERFILE_STAGES_MAX];
	uint64_t *wrote[DOCKERFILE_STAGES_MAX];	    /* of each stage: bytes of each step; owned */
	uint64_t base_bytes[DOCKERFILE_STAGES_MAX]; /* of each stage's disk before its steps */
	size_t step_count, step_number;
	bool missed;			       /* a step of the stage has run */
	bool forced;			       /* a step says that nothing kept counts */
	const struct machine_network *network; /* of RUN in this stage; NULL: none */
	bool networked;			       /* the step that runs may have it */

	struct disk_budget cache_budget;
	struct stage_caches caches;

	/* the stage that is built */
	struct stage stage;
	size_t at;
	struct machine *machine;
	struct files_context context;
	struct machine *source; /* of --from */
	int source_fd;		/* its disk, borrowed */
	struct files_machine source_files;
	struct import *imports;
	unsigned import_count;
	struct fetched_file fetched[BUILDER_FETCHED_MAX];
	unsigned fetched_count;
	unsigned dir_count; /* directories of disks in `w` */
};

/* stage.h: fetch. */
int builder_fetch(
	void *opaque, const char *url, int *ret_fd, const char **ret_digest, struct error *e);
void builder_fetched_done(struct builder *b);

/* Whether what is made takes the place of what was kept. */
bool builder_replaces(const struct builder *b);

/* The machine of the stage that is built, which is started when there is none. */
int builder_machine(struct builder *b, struct machine **ret, struct error *e);

/* Makes a directory for a disk, empty or with what another one has (-1: none). It goes with the
 * build unless step_cache_put moves it. Returns a descriptor, or -errno. */
int builder_make_disk(
	struct builder *b, int from_fd, char name[BUILDER_NAME_BYTES], struct error *e);

/* Writes history.json into the image: [{"step", "bytes"}], from FROM on. */
int builder_write_history(struct builder *b, struct error *e);

/* Makes the image of the last stage's state, and puts it in place. */
int builder_finish_image(struct builder *b, struct error *e);

#endif
