/* Kernel images, kernel modules, recipes and apt sources from arbitrary bytes. The first byte
 * chooses the parser. */
#include <stdlib.h>

#include "image/debian.h"
#include "image/kernel.h"
#include "image/module_info.h"
#include "image/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_kernel(const uint8_t *data, size_t size)
{
	char release[KERNEL_RELEASE_MAX];
	uint8_t *image = NULL;
	size_t len = 0;

	(void)kernel_release(data, size, release);
	if (kernel_extract(data, size, &image, &len, NULL) == 0)
		free(image);
}

static void try_recipe(const uint8_t *data, size_t size)
{
	struct recipe r;
	struct error e = {0};

	if (recipe_parse((const char *)data, size, "fuzz", &r, &e) == 0)
		recipe_done(&r);
	else if (!e.message[0])
		abort(); /* every refusal says why */
}

static void try_sources(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT(1 << 20);
	char *text = calloc(1, size + 1);

	for (size_t i = 0; text && i < size; i++)
		text[i] = (char)data[i];
	if (text) {
		(void)debian_filter_sources(text, true, "bookworm", &out);
		(void)debian_filter_sources(text, false, "bookworm", &out);
	}
	free(text);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 4) {
	case 0:
		try_kernel(data + 1, size - 1);
		break;
	case 1:
		try_recipe(data + 1, size - 1);
		break;
	case 2:
		(void)module_info(data + 1, size - 1, "depends");
		break;
	default:
		try_sources(data + 1, size - 1);
	}
	return 0;
}
