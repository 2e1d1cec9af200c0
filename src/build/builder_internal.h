/* What the files of the builder share: builder.c (stages and steps) and builder_image.c (the image,
 * made of the last stage). */
#ifndef BUILD_BUILDER_INTERNAL_H
#define BUILD_BUILDER_INTERNAL_H

#include "build/builder.h"
#include "build/files.h"
#include "build/machine.h"
#include "build/stage.h"
#include "image/workdir.h"
#include "oci/digest.h"

enum { BUILDER_NAME_BYTES = 32 };

/* An image that --from of COPY names. */
struct import {
	char *name; /* owned */
	struct stage_state state;
};

/* A file that ADD fetched. */
struct fetched_file {
	char *url; /* owned */
	int fd;	   /* it has no name on the disk */
	char digest[OCI_DIGEST_MAX];
};

enum { BUILDER_FETCHED_MAX = 64 };

struct builder {
	const struct builder_options *o;
	struct workdir w; /* becomes images/<name> */
	struct home work; /* in `w`: bases and stages */
	struct vars global;
	struct image_config config; /* sizes */
	struct stage_state *done;   /* per stage: its base, and then its result */
	char **bases;		    /* per stage: what FROM names, with variables expanded; owned */
	bool needed[DOCKERFILE_STAGES_MAX];
	struct dockerfile_steps steps[DOCKERFILE_STAGES_MAX]; /* triggers of its base come first */
	struct arena arena;				      /* of these steps */
	uint64_t *wrote[DOCKERFILE_STAGES_MAX];	    /* per stage: bytes of each step; owned */
	uint64_t base_bytes[DOCKERFILE_STAGES_MAX]; /* per stage: of its disk before steps */
	int base_fd[DOCKERFILE_STAGES_MAX]; /* per stage: directory of its base's disk, or -1 */
	size_t step_count, step_number;
	size_t told;		 /* steps of the stage that ops.step was told of */
	bool missed;		 /* a step of the stage was not in the cache */
	bool forced;		 /* a step forbids the cache from here on */
	bool aged;		 /* a step was kept too long: all after it run, in all stages */
	struct step_cache cache; /* of steps */
	const struct machine_network *network; /* of RUN in this stage; NULL: none */
	bool networked;			       /* the present step may use it */

	struct disk_budget cache_budget;
	struct stage_caches caches;

	/* the stage that is being built */
	struct stage stage;
	size_t at;
	struct machine *machine;
	struct files_context context;
	struct machine *source; /* of --from */
	int source_fd;		/* directory of its disk, borrowed */
	struct files_machine source_files;
	struct import *imports;
	unsigned import_count;
	struct fetched_file fetched[BUILDER_FETCHED_MAX];
	unsigned fetched_count;
	unsigned dir_count; /* directories of disks in `w` */
};

/* Implements `fetch` of struct stage_ops (stage.h). */
int builder_fetch(
	void *opaque, const char *url, int *ret_fd, const char **ret_digest, struct error *e);
void builder_fetched_done(struct builder *b);

/* Whether new results replace those that the cache has. */
bool builder_replaces(const struct builder *b);

/* Returns the bytes that the last step of a disk wrote, or 0. before: the number of deltas before
 * the step. */
uint64_t builder_wrote(int disk_fd, unsigned before);

/* Returns the machine of the stage that is being built. Starts one if there is none. */
int builder_machine(struct builder *b, struct machine **ret, struct error *e);

/* Makes a directory for a disk. It is empty if from_fd is -1, else it gets all files of that
 * directory. The build's end removes it, unless step_cache_put() moves it. Returns a descriptor or
 * -errno. */
int builder_make_disk(
	struct builder *b, int from_fd, char name[BUILDER_NAME_BYTES], struct error *e);

/* Makes the image from the last stage's result, and puts it in place. */
int builder_finish_image(struct builder *b, struct error *e);

#endif
