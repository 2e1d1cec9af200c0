/* The documents of images: index, manifest, config and the list of an archive. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "oci/document.h"
#include "oci/document_tree.h"

#define HEX    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SUM    "sha256:" HEX
#define OCI(x) "application/vnd.oci.image." x ".v1+json"

/* Reads a text as mayfly does, but without the jail. */
static int read_text(const char *text, size_t n, json_t **ret, struct error *e)
{
	_cleanup_close_ int fd = memfd_create("document", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), n);
	return oci_document_read(parse, fd, "document", ret, e);
}

static json_t *must_read(const char *text)
{
	json_t *o = NULL;

	assert_int_equal(read_text(text, strlen(text), &o, NULL), 0);
	return o;
}

static void test_index(void **state)
{
	static const char text[] = "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" OCI(
		"manifest") "\","
			    "\"digest\":\"" SUM
			    "\",\"size\":7,\"platform\":{\"os\":\"linux\",\"architecture\":"
			    "\"amd64\"},\"annotations\":{\"org.opencontainers.image.ref.name\":"
			    "\"v1\"}}]}";
	_cleanup_(oci_document_done) json_t *o = must_read(text);
	struct oci_index x;
	struct error e = {0};

	assert_int_equal(oci_document_kind(o), OCI_MEDIA_INDEX);
	assert_int_equal(oci_index_take(o, &x, &e), 0);
	assert_int_equal(x.count, 1);
	assert_int_equal(x.items[0].media, OCI_MEDIA_MANIFEST);
	assert_int_equal(x.items[0].size, 7);
	assert_string_equal(x.items[0].digest, SUM);
	assert_string_equal(x.items[0].architecture, "amd64");
	assert_string_equal(x.items[0].name, "v1");
	oci_index_done(&x);
}

static int parse_layer(const char *type, const char *size, struct error *e)
{
	_cleanup_(oci_document_done) json_t *o = NULL;
	struct oci_manifest m;
	char text[1024];
	int r;

	(void)snprintf(text, sizeof(text),
		"{\"config\":{\"digest\":\"" SUM "\",\"size\":2},\"layers\":[{\"mediaType\":\"%s\","
		"\"digest\":\"" SUM "\",\"size\":%s}]}",
		type, size);
	o = must_read(text);
	r = oci_manifest_take(o, &m, e);
	if (r == 0)
		oci_manifest_done(&m);
	return r;
}

static void test_layers_of_manifests(void **state)
{
	static const struct {
		const char *type, *size, *says; /* NULL: accepted */
	} cases[] = {
		{"application/vnd.oci.image.layer.v1.tar", "0", NULL},
		{"application/vnd.oci.image.layer.v1.tar+zstd", "17179869184", NULL},
		{"application/vnd.docker.image.rootfs.diff.tar.gzip", "1", NULL},
		{"application/vnd.oci.image.layer.v1.tar", "17179869185", "too large"},
		{"application/vnd.oci.image.layer.v1.tar", "-1", "size"},
		{"application/vnd.oci.image.layer.v1.tar", "\"1\"", "size"},
		{"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "1",
			"not distributed"},
		{"application/vnd.cncf.helm.chart.content.v1.tar+gzip", "1",
			"no part of a file system"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error e = {0};
		int r = parse_layer(cases[i].type, cases[i].size, &e);

		assert_int_equal(r < 0, cases[i].says != NULL);
		if (r < 0 && !strstr(e.message, cases[i].says))
			fail_msg("%s", e.message);
	}
}

/* A manifest of many layers, which are the same one. */
static void test_many_layers(void **state)
{
	static const unsigned counts[] = {OCI_LAYERS_MAX, OCI_LAYERS_MAX + 1, 1000};

	for (size_t i = 0; i < 3; i++) {
		_cleanup_(oci_document_done) json_t *o = NULL;
		struct buf text = BUF_INIT(OCI_DOCUMENT_MAX);
		struct oci_manifest m;
		struct error e = {0};
		int r;

		assert_int_equal(buf_add_str(&text, "{\"config\":{\"digest\":\"" SUM
						    "\",\"size\":2},\"layers\":["),
			0);
		for (unsigned k = 0; k < counts[i]; k++)
			assert_int_equal(buf_printf(&text,
						 "%s{\"mediaType\":\"application/"
						 "vnd.oci.image.layer.v1.tar\",\"digest\":\"" SUM
						 "\",\"size\":1}",
						 k ? "," : ""),
				0);
		assert_int_equal(buf_add_str(&text, "]}"), 0);
		assert_int_equal(
			read_text((const char *)buf_head(&text), buf_len(&text), &o, &e), 0);
		r = oci_manifest_take(o, &m, &e);
		assert_int_equal(r<0, i> 0);
		if (r == 0)
			oci_manifest_done(&m);
		else
			assert_int_equal(e.code, ERROR_LIMIT);
		buf_done(&text);
	}
}

static int parse_config(const char *text, struct oci_config *c, struct error *e)
{
	_cleanup_(oci_document_done) json_t *o = NULL;
	int r = read_text(text, strlen(text), &o, e);

	return r < 0 ? r : oci_config_take(o, 1, c, e);
}

static void test_config(void **state)
{
	static const char text[] =
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"Env\":[\"A=1\",\"B=\"],"
		"\"User\":\"1000:7\",\"WorkingDir\":\"/w\",\"Entrypoint\":[\"/e\"],\"Cmd\":null,"
		"\"OnBuild\":[\"RUN a\",\"COPY . /b\"]},"
		"\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"" SUM "\"]}}";
	static const char *const refused[] = {
		"{\"os\":\"windows\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"" SUM
		"\"]}}",
		"{\"os\":\"linux\",\"architecture\":\"arm64\",\"rootfs\":{\"diff_ids\":[\"" SUM
		"\"]}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[]}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"x\"]}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"Env\":[1]},"
		"\"rootfs\":{\"diff_ids\":[\"" SUM "\"]}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"OnBuild\":[\"RUN "
		"a\\rb\"]},"
		"\"rootfs\":{\"diff_ids\":[\"" SUM "\"]}}",
		"{\"os\":\"linux\",\"os\":\"linux\",\"architecture\":\"amd64\"}",
		"[]",
		"",
	};
	struct oci_config c;
	struct error e = {0};

	assert_int_equal(parse_config(text, &c, &e), 0);
	assert_int_equal(c.env.count, 2);
	assert_string_equal(c.env.items[1], "B=");
	assert_string_equal(c.user, "1000:7");
	assert_string_equal(c.workdir, "/w");
	assert_int_equal(c.entrypoint.count, 1);
	assert_int_equal(c.command.count, 0);
	assert_int_equal(c.triggers.count, 2);
	assert_string_equal(c.triggers.items[1], "COPY . /b");
	oci_config_done(&c);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		e = (struct error){0};
		assert_true(parse_config(refused[i], &c, &e) < 0);
		assert_int_equal(e.code, ERROR_BAD_IMAGE);
	}
}

static int parse_saved(const char *text, struct oci_saved_list *l, struct error *e)
{
	_cleanup_(oci_document_done) json_t *o = NULL;
	int r = read_text(text, strlen(text), &o, e);

	return r < 0 ? r : oci_saved_take(o, l, e);
}

static void test_saved(void **state)
{
	static const char text[] = "[{\"Config\":\"c.json\",\"RepoTags\":[\"a:b\"],\"Layers\":[\"l/"
				   "layer.tar\"]}]\n";
	static const char *const refused[] = {"[]", "{}", "[{}]", "[{\"Config\":7}]",
		"[{\"Config\":\"c\"}],\"list\":[]", "[{\"Config\":\"c\",\"Layers\":[null]}]"};
	struct oci_saved_list l;
	struct error e = {0};

	assert_int_equal(parse_saved(text, &l, &e), 0);
	assert_int_equal(l.count, 1);
	assert_string_equal(l.items[0].config, "c.json");
	assert_string_equal(l.items[0].layers.items[0], "l/layer.tar");
	assert_string_equal(l.items[0].tags.items[0], "a:b");
	oci_saved_list_done(&l);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_true(parse_saved(refused[i], &l, NULL) < 0);
}

/* What a text becomes on its way through the entries, with the members that are in use. */
static void test_documents(void **state)
{
	static const struct {
		const char *text, *becomes; /* NULL: refused */
	} cases[] = {
		{"{\"size\":-9223372036854775808,\"os\":null,\"x\":[1,2]}",
			"{\"size\":-9223372036854775808,\"os\":null}"},
		{"[[],{\"config\":{\"Env\":[\"\",\"a/b\",true,1.5]}}]",
			"[[],{\"config\":{\"Env\":[\"\",\"a/b\",true,true]}}]"},
		{" 7 ", "7"},
		{"{\"User\":\"\xc3\xbc\\n\"}", "{\"User\":\"\xc3\xbc\\n\"}"},
		{"{\"User\":\"\\u0000\"}", NULL},
		{"{\"User\":\"\xff\"}", NULL},
		{"{\"os\":1,\"os\":2}", NULL},
		{"{},\"os\":{}", NULL},
		{"{}}", NULL},
		{"[[[[[[[[[]]]]]]]]]", NULL},
		{"", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(oci_document_done) json_t *o = NULL;
		_cleanup_free_ char *text = NULL;
		struct error e = {0};
		int r = read_text(cases[i].text, strlen(cases[i].text), &o, &e);

		assert_int_equal(r < 0, !cases[i].becomes);
		if (r < 0) {
			assert_int_equal(e.code, ERROR_BAD_IMAGE);
			continue;
		}
		text = json_dumps(o, JSON_ENCODE_ANY | JSON_COMPACT);
		assert_string_equal(text, cases[i].becomes);
	}
}

struct lie {
	const char *path, *content;
};

static const struct lie *lies;

/* A reader that was taken over: it reports what it likes. */
static int lie(const struct parse_options *o, struct tree_sink *to, struct error *e)
{
	int r = 0;

	for (const struct lie *l = lies; l->path && r == 0; l++)
		r = tree_put(to, l->path, l->content, strlen(l->content), 0644, 0, 0, 0, e);
	return r;
}

static void test_hostile_values(void **state)
{
	static const struct lie cases[][4] = {
		{{NULL}},
		{{"document", ""}},
		{{"document", "?"}},
		{{"document", "n7x"}},
		{{"document", "n99999999999999999999"}},
		{{"document", "t\xff"}},
		{{"elsewhere/os", "tlinux"}},
		{{"document", "o"}, {"document", "o"}},
		{{"document", "o"}, {"document/os", "t"}, {"document/os", "t"}},
		{{"document", "o"}, {"document/platform/os", "t"}},
		{{"document", "l"}, {"document/1", "t"}},
		{{"document", "l"}, {"document/0", "t"}, {"document/0", "t"}},
		{{"document", "t"}, {"document/os", "t"}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(oci_document_done) json_t *o = NULL;
		struct error e = {0};

		lies = cases[i];
		if (oci_document_read(lie, -1, "document", &o, &e) == 0)
			fail_msg("case %zu: accepted", i);
		assert_int_equal(e.code, ERROR_BAD_IMAGE);
	}
}

static int endless(const struct parse_options *o, struct tree_sink *to, struct error *e)
{
	int r = tree_put(to, "document", "l", 1, 0644, 0, 0, 0, e);

	for (unsigned i = 0; r == 0; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "document/%u", i); /* fits */
		r = tree_put(to, path, "t", 1, 0644, 0, 0, 0, e);
	}
	return r;
}

static void test_endless_values(void **state)
{
	_cleanup_(oci_document_done) json_t *o = NULL;
	struct error e = {0};

	assert_true(oci_document_read(endless, -1, "document", &o, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_layers_of_manifests),
		cmocka_unit_test(test_many_layers),
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_saved),
		cmocka_unit_test(test_documents),
		cmocka_unit_test(test_hostile_values),
		cmocka_unit_test(test_endless_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
