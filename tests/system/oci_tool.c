/* The room `oci` as a program, for tests/system/test_oci:
 *
 *   oci-tool tree SOURCE DIRECTORY [public|stranger]
 *	an image's tree, into an empty directory (as root);
 *	public: registries as for clients' builds;
 *	stranger: the store of blobs as for them;
 *	$REGISTRY_AUTH: as --registry-auth
 *	$REGISTRY_MIRRORS: values of --registry-mirror, with blanks between them
 *
 * The state directory is $MAYFLY_HOME. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/tree_dir.h"
#include "io/jailed.h"
#include "oci/import.h"
#include "oci/source.h"

static int write_tree(struct oci_import *i, const char *directory, struct error *e)
{
	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree_dir *d = NULL;
	int r = fd < 0 ? error_set(e, ERROR_USAGE, 0, "no directory %s", directory)
		       : tree_dir_new(fd, 0, &d, e);

	if (r == 0)
		r = oci_import_write(i, tree_dir_sink(d), e);
	if (r == 0)
		r = tree_dir_finish(d, e);
	tree_dir_free(d);
	return r;
}

static int find_credentials(const char *registry, struct oci_credentials *ret, struct error *e)
{
	const char *given = getenv("REGISTRY_AUTH");

	if (given)
		return oci_credentials_parse(given, ret, e);
	oci_credentials_find(registry, ret);
	return 0;
}

static int find_mirrors(struct oci_mirrors *ret, struct error *e)
{
	struct option_list list = {.count = 0};
	char *words = getenv("REGISTRY_MIRRORS"), *word;

	while (words && (word = strsep(&words, " ")) && list.count < OPTION_LIST_MAX)
		list.items[list.count++] = word;
	return oci_mirrors_parse(&list, ret, e);
}

static int tree(const char *from, const char *directory, const char *who, struct error *e)
{
	const struct oci_reach reach = {.public_only = strcmp(who, "public") == 0,
		.stranger = strcmp(who, "stranger") == 0};
	struct home home = HOME_INIT;
	struct oci_source source = {.path = NULL};
	struct oci_image image = {.layer_count = 0};
	struct oci_import import = {.image = &image};
	struct oci_credentials credentials = {.helper = false};
	struct oci_mirrors mirrors;
	const struct oci_source_options o = {.home = &home,
		.unpack = unpack,
		.credentials = &credentials,
		.mirrors = &mirrors,
		.reach = &reach};
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = oci_source_parse(from, NULL, &source, e);
	if (r == 0)
		r = find_credentials(source.reference.registry, &credentials, e);
	if (r == 0)
		r = find_mirrors(&mirrors, e);
	if (r == 0)
		r = oci_source_load(&source, &o, &image, e);
	if (r == 0)
		r = oci_import_plan(&import, &image, unpack, NULL, e);
	if (r == 0)
		r = write_tree(&import, directory, e);
	if (r == 0)
		(void)printf("%s\n", image.digest);
	oci_import_done(&import);
	oci_image_done(&image);
	oci_source_done(&source);
	home_close(&home);
	return r;
}

int main(int argc, char **argv)
{
	struct error e = {0};

	if (argc < 4 || argc > 5 || strcmp(argv[1], "tree") != 0) {
		(void)fprintf(stderr, "usage: oci-tool tree SOURCE DIRECTORY\n");
		return 2;
	}
	if (jailed_prepare(NULL, &e) < 0 ||
		tree(argv[2], argv[3], argc == 5 ? argv[4] : "", &e) < 0) {
		(void)fprintf(stderr, "oci-tool: %s\n", e.message);
		return 1;
	}
	return 0;
}
