/* Dockerfiles and what belongs to them: lines, words, variables, mounts, .dockerignore. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "dockerfile/dockerfile.h"
#include "dockerfile/expand.h"
#include "dockerfile/ignore.h"
#include "dockerfile/mount.h"
#include "dockerfile/pattern.h"
#include "dockerfile/source.h"

/* --- what is read, as text --- */

static void print_step(struct buf *b, const struct dockerfile_step *s)
{
	(void)buf_printf(b, "%u %s%s", s->line, dockerfile_kind_name(s->kind), s->exec ? "!" : "");
	for (size_t i = 0; i < s->flag_count; i++)
		(void)buf_printf(b, " --%s=%s", s->flags[i].name, s->flags[i].value);
	for (size_t i = 0; i < s->words.count; i++)
		(void)buf_printf(b, " <%s>", s->words.items[i]);
	for (size_t i = 0; i < s->heredoc_count; i++)
		(void)buf_printf(b, " %s%s{%s}", s->heredocs[i].name,
			s->heredocs[i].expand ? "$" : "", s->heredocs[i].text);
	(void)buf_printf(b, "\n");
}

static void print(struct buf *b, const struct dockerfile *d)
{
	for (size_t i = 0; i < d->args.count; i++)
		print_step(b, &d->args.items[i]);
	for (size_t k = 0; k < d->stage_count; k++) {
		const struct dockerfile_stage *s = &d->stages[k];

		(void)buf_printf(
			b, "%u FROM <%s> <%s> <%s>\n", s->line, s->base, s->name, s->platform);
		for (size_t i = 0; i < s->steps.count; i++)
			print_step(b, &s->steps.items[i]);
	}
}

static void expect_read(const char *text, const char *wanted)
{
	struct buf out = BUF_INIT(1 << 20);
	struct dockerfile d;
	struct error e = {0};

	if (dockerfile_parse(text, strlen(text), &d, &e) < 0)
		fail_msg("%s: %s", text, e.message);
	print(&out, &d);
	(void)buf_add_u8(&out, 0);
	assert_string_equal((const char *)buf_head(&out), wanted);
	buf_done(&out);
	dockerfile_done(&d);
}

static const struct {
	const char *in, *out;
} readable[] = {
	{"FROM a", "1 FROM <a> <> <>\n"},
	{"from  a:1 As Base\n", "1 FROM <a:1> <base> <>\n"},
	{"FROM --platform=$P a", "1 FROM <a> <> <$P>\n"},
	{"\xef\xbb\xbf"
	 "FROM a\r\nUSER me\r\n",
		"1 FROM <a> <> <>\n2 USER <me>\n"},
	{"ARG V=1 W\nFROM a:$V", "1 ARG <V=1> <W>\n2 FROM <a:$V> <> <>\n"},
	/* lines */
	{"# a comment\n\n  FROM a\n\t# another\nUSER x", "3 FROM <a> <> <>\n5 USER <x>\n"},
	{"FROM a\nRUN one \\\n  two \\ \t\n# left out\n\n   # too\n three\nUSER x",
		"1 FROM <a> <> <>\n2 RUN <one   two  three>\n8 USER <x>\n"},
	{"FROM a\nRUN echo \\\\\nUSER x", "1 FROM <a> <> <>\n2 RUN <echo \\\\>\n3 USER <x>\n"},
	{"FROM a\nRUN end \\", "1 FROM <a> <> <>\n2 RUN <end>\n"},
	{"# escape=`\nFROM a\nRUN one `\n two \\\nUSER x",
		"2 FROM <a> <> <>\n3 RUN <one  two \\>\n5 USER <x>\n"},
	{"# syntax=docker/dockerfile:1.7\n# escape = ` \nFROM a\nRUN a`\nb",
		"3 FROM <a> <> <>\n4 RUN <ab>\n"},
	{"# other=1\n# escape=`\nFROM a\nRUN a\\\nb", "3 FROM <a> <> <>\n4 RUN <ab>\n"},
	{"# a comment\n# escape=x\nFROM a", "3 FROM <a> <> <>\n"},
	/* forms of commands */
	{"FROM a\nRUN [\"a b\", \"\\u0041\"]\nCMD [ ]x\nENTRYPOINT [\"x\"]",
		"1 FROM <a> <> <>\n2 RUN! <a b> <A>\n3 CMD <[ ]x>\n4 ENTRYPOINT! <x>\n"},
	{"FROM a\nENTRYPOINT []\nCMD [ ]", "1 FROM <a> <> <>\n2 ENTRYPOINT!\n3 CMD!\n"},
	{"FROM a\nRUN ['a']\nSHELL [\"/bin/bash\",\"-c\"]",
		"1 FROM <a> <> <>\n2 RUN <['a']>\n3 SHELL </bin/bash> <-c>\n"},
	{"FROM a\nHEALTHCHECK none\nHEALTHCHECK --interval=5s --retries=3 CMD [\"x\"]",
		"1 FROM <a> <> <>\n2 HEALTHCHECK <NONE>\n"
		"3 HEALTHCHECK! --interval=5s --retries=3 <CMD> <x>\n"},
	/* flags */
	{"FROM a\nRUN --mount=type=cache,target=/c --mount=type=tmpfs,target=/t --network=none "
	 "make --x",
		"1 FROM <a> <> <>\n2 RUN --mount=type=cache,target=/c --mount=type=tmpfs,target=/t "
		"--network=none <make --x>\n"},
	{"FROM a\nCOPY --from=b --chown=1:2 --chmod=755 --link x y /z/",
		"1 FROM <a> <> <>\n2 COPY --from=b --chown=1:2 --chmod=755 --link=true <x> <y> "
		"</z/>\n"},
	{"FROM a\nCOPY --from=\"b\" --chown='1:2' --chmod=7\\55 \"x\" /z/",
		"1 FROM <a> <> <>\n2 COPY --from=b --chown=1:2 --chmod=755 <\"x\"> </z/>\n"},
	{"FROM a\nRUN --mount=type=cache,target=\"/a b\" make",
		"1 FROM <a> <> <>\n2 RUN --mount=type=cache,target=/a b <make>\n"},
	{"FROM a\nCOPY [\"with blank\", \"/z\"]\nCOPY -- --odd /z",
		"1 FROM <a> <> <>\n2 COPY <with blank> </z>\n3 COPY <--odd> </z>\n"},
	{"FROM a\nADD --checksum=sha256:00 https://x.example/y /z",
		"1 FROM <a> <> <>\n2 ADD --checksum=sha256:00 <https://x.example/y> </z>\n"},
	/* pairs */
	{"FROM a\nENV A=1 B=\"two words\" C=a\\ b\nENV OLD the  rest\nLABEL \"a.b\"=c",
		"1 FROM <a> <> <>\n2 ENV <A> <1> <B> <\"two words\"> <C> <a\\ b>\n"
		"3 ENV <OLD> <the  rest>\n4 LABEL <\"a.b\"> <c>\n"},
	{"FROM a\nEXPOSE 80 443/tcp\nVOLUME [\"/a b\"]\nVOLUME /a /b\nSTOPSIGNAL "
	 "SIGINT\nMAINTAINER me",
		"1 FROM <a> <> <>\n2 EXPOSE <80> <443/tcp>\n3 VOLUME </a b>\n4 VOLUME </a> </b>\n"
		"5 STOPSIGNAL <SIGINT>\n6 MAINTAINER <me>\n"},
	/* triggers */
	{"FROM a\nonbuild  run --network=none \\\n  x\nONBUILD COPY <<A <<B /d/\n1\nA\n\n2\nB\n"
	 "ONBUILD ENV A=<<no",
		"1 FROM <a> <> <>\n2 ONBUILD <run --network=none   x>\n"
		"4 ONBUILD <COPY <<A <<B /d/\n1\nA\n\n2\nB>\n10 ONBUILD <ENV A=<<no>\n"},
	/* heredocs */
	{"FROM a\nRUN <<EOF\nFROM b\n# kept\n\n\\\nEOF\nUSER x",
		"1 FROM <a> <> <>\n2 RUN <<<EOF> EOF${FROM b\n# kept\n\n\\\n}\n8 USER <x>\n"},
	{"FROM a\nRUN cat <<-'E1' 3<<E2 && x\n\t1\n\tE1\n2\nE2",
		"1 FROM <a> <> <>\n2 RUN <cat <<-'E1' 3<<E2 && x> E1{1\n} E2${2\n}\n"},
	{"FROM a\nCOPY <<one b <<\"two\" /d/\n1\none\n2\ntwo\nRUN echo \"<<no\" <<<x a<<b",
		"1 FROM <a> <> <>\n2 COPY <<<one> <b> <<<\"two\"> </d/> one${1\n} two{2\n}\n"
		"7 RUN <echo \"<<no\" <<<x a<<b>\n"},
};

static void test_read(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(readable); i++)
		expect_read(readable[i].in, readable[i].out);
}

static const struct {
	const char *in, *why;
} refused[] = {
	{"", "has no FROM"},
	{"# only\n", "has no FROM"},
	{"ARG x", "has no FROM"},
	{"FROM a\nCOPY --from='b x /z", "line 2: COPY: a quote of the flag --from=b x /z"},
	{"RUN x", "line 1: RUN: only ARG can stand before the first FROM"},
	{"FROM a\nFORM b", "line 2: FORM: is not an instruction"},
	{"FROM a\n\nONBUILD FROM x", "line 3: ONBUILD FROM: ONBUILD cannot have this"},
	{"FROM a\nONBUILD onbuild RUN x", "line 2: ONBUILD ONBUILD: ONBUILD cannot have this"},
	{"FROM a\nONBUILD MAINTAINER x", "line 2: ONBUILD MAINTAINER: ONBUILD cannot have this"},
	{"FROM a\nONBUILD FORM x", "line 2: ONBUILD FORM: is not an instruction"},
	{"FROM a\nONBUILD", "line 2: ONBUILD: needs an argument"},
	{"FROM a\nONBUILD RUN", "line 2: ONBUILD RUN: needs an argument"},
	{"FROM a\nONBUILD --x RUN y", "line 2: ONBUILD: --x is not supported"},
	{"FROM a\nONBUILD RUN <<EOF\nnever", "ONBUILD: line 2: the heredoc has no end"},
	{"ONBUILD RUN x", "line 1: ONBUILD: only ARG can stand before the first FROM"},
	{"FROM", "line 1: FROM: must be FROM IMAGE"},
	{"FROM a b", "line 1: FROM: must be FROM IMAGE"},
	{"FROM a AS 1", "line 1: FROM: 1 cannot name a stage"},
	{"FROM a AS x/y", "line 1: FROM: x/y cannot name a stage"},
	{"FROM a AS Scratch", "line 1: FROM: scratch is reserved"},
	{"FROM a AS b\nFROM c AS B", "line 2: FROM: a stage above is named b"},
	{"FROM --as=x a", "line 1: FROM: --as is not supported"},
	{"FROM a\nRUN", "line 2: RUN: needs an argument"},
	{"FROM a\nRUN []", "line 2: RUN: the list is empty"},
	{"FROM a\nRUN --security=insecure x", "line 2: RUN: --security is not supported"},
	{"FROM a\nRUN --network=host x", "line 2: RUN: --network=host is not supported"},
	{"FROM a\nRUN --network=x y", "line 2: RUN: --network=x: must be"},
	{"FROM a\nRUN --mount=type=nfs,target=/x y", "line 2: RUN: --mount: type=nfs: must be"},
	{"FROM a\nRUN --mount=type=cache y", "line 2: RUN: --mount: type=cache needs a target"},
	{"FROM a\nRUN --mount=type=tmpfs,target=/x,from=b y",
		"line 2: RUN: --mount: type=tmpfs has no from"},
	{"# escape=`\nFROM a\nRUN [\"a\\\" <<E b\"]\nE",
		"line 3: RUN: a heredoc needs the shell form"},
	{"FROM a\nCOPY \"a <<E b\" <<F /\nF", "line 2: COPY: the mark of a heredoc"},
	{"FROM a\nCOPY x", "line 2: COPY: needs at least a source"},
	{"FROM a\nCOPY --chown= x y", "line 2: COPY: --chown needs a value"},
	{"FROM a\nCOPY --chown x y", "line 2: COPY: --chown needs a value"},
	{"FROM a\nCOPY --chown=1 --chown=2 x y", "line 2: COPY: --chown is given twice"},
	{"FROM a\nCOPY --archive x y", "line 2: COPY: --archive is not supported"},
	{"FROM a\nENV A", "line 2: ENV: needs NAME=VALUE"},
	{"FROM a\nENV A=1 B", "line 2: ENV: B has no ="},
	{"FROM a\nENV =1", "line 2: ENV: =1 has no name"},
	{"FROM a\nENV a$b=1", "line 2: ENV: a$b cannot be the name"},
	{"FROM a\nARG a+b=1", "line 2: ARG: a+b=1 is not NAME"},
	{"FROM a\nSHELL bash", "line 2: SHELL: needs a list"},
	{"FROM a\nHEALTHCHECK curl x", "line 2: HEALTHCHECK: must be NONE"},
	{"FROM a\nRUN <<EOF\nnever",
		"RUN: line 2: the heredoc has no end: end it with a line that is just EOF"},
	{"# escape=x\nFROM a", "line 1: the directive `escape`"},
	{"# escape=`\n# escape=`\nFROM a", "line 2: the directive `escape` is given twice"},
	{"# syntax=evil/frontend\nFROM a", "line 1: the directive `syntax` names evil/frontend"},
};

static void expect_refused(const char *text, size_t n, const char *why)
{
	struct dockerfile d;
	struct error e = {0};

	if (dockerfile_parse(text, n, &d, &e) == 0)
		fail_msg("accepted: %.200s", text);
	if (!strstr(e.message, why))
		fail_msg("%.200s\n'%s' instead of '%s'", text, e.message, why);
	dockerfile_done(&d);
}

static void test_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		expect_refused(refused[i].in, strlen(refused[i].in), refused[i].why);
	expect_refused("FROM a\nRUN x\0y", 14, "NUL");
}

/* n times a piece after a head. */
static void expect_limit(const char *head, const char *piece, size_t n, const char *why)
{
	struct buf text = BUF_INIT(4 << 20);

	assert_int_equal(buf_add_str(&text, head), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_add_str(&text, piece), 0);
	expect_refused((const char *)buf_head(&text), buf_len(&text), why);
	buf_done(&text);
}

static void test_limits(void **state)
{
	expect_limit(
		"FROM a\n#", "0123456789abcdef", (SOURCE_BYTES_MAX / 16) + 1, "larger than 1 MiB");
	expect_limit("FROM a\n", "\n", SOURCE_LINES_MAX, "more than 20000 lines");
	expect_limit("FROM a\nRUN x", "\\\n0123456789abcdef", SOURCE_INSTRUCTION_MAX / 16,
		"longer than 65536 bytes");
	expect_limit("FROM a\n", "FROM b\n", DOCKERFILE_STAGES_MAX, "more than 64 stages");
	expect_limit("FROM a\n", "USER b\n", DOCKERFILE_STEPS_MAX + 1, "more than 1000 steps");
	expect_limit("FROM a\nEXPOSE ", " 1", SPLIT_WORDS_MAX + 1, "more than 1024 words");
	expect_limit("FROM a\nRUN ", "--mount=target=/x ", DOCKERFILE_FLAGS_MAX + 1,
		"more than 32 flags");
	expect_limit(
		"FROM a\nRUN x ", "<<E ", DOCKERFILE_HEREDOCS_MAX + 1, "the heredoc has no end");
}

static void test_stages(void **state)
{
	static const char text[] =
		"FROM a AS One\nRUN a\nFROM b\nRUN b\nRUN c\nFROM one AS three\nRUN d";
	struct dockerfile d;
	struct error e = {0};
	size_t steps;

	assert_int_equal(dockerfile_parse(text, strlen(text), &d, NULL), 0);
	assert_int_equal(dockerfile_find_stage(&d, "ONE", 3), 0);
	assert_int_equal(dockerfile_find_stage(&d, "1", 3), 1);
	assert_int_equal(dockerfile_find_stage(&d, "three", 3), 2);
	assert_int_equal(dockerfile_find_stage(&d, "three", 2), -1); /* not below itself */
	assert_int_equal(dockerfile_find_stage(&d, "3", 3), -1);
	assert_true(dockerfile_end_at(&d, "four", &e) < 0 && e.code == ERROR_USAGE);
	steps = d.step_count;
	assert_int_equal(dockerfile_end_at(&d, "2", NULL), 0);
	assert_true(d.stage_count == 3 && d.step_count == steps);
	steps -= d.stages[2].steps.count;
	assert_int_equal(dockerfile_end_at(&d, "1", NULL), 0);
	assert_true(d.stage_count == 2 && d.step_count == steps);
	assert_int_equal(dockerfile_end_at(&d, "ONE", NULL), 0);
	assert_int_equal(d.stage_count, 1);
	assert_true(dockerfile_end_at(&d, "1", NULL) < 0);
	dockerfile_done(&d);
}

/* --- variables --- */

static const char *get(void *opaque, const char *name)
{
	return strcmp(name, "set") == 0 ? "value" : strcmp(name, "empty") == 0 ? "" : NULL;
}

static void test_expand(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: refused */
	} cases[] = {{"plain", "plain"}, {"$set", "value"}, {"${set}x$set.y", "valuexvalue.y"},
		{"$un", ""}, {"${un}", ""}, {"a$", "a$"}, {"a$.b", "a$.b"}, {"$setx", ""},
		{"${set:-d}${un:-d}${empty:-d}", "valuedd"},
		{"${set-d}${un-d}${empty-d}", "valued"}, {"${set:+d}${un:+d}${empty:+d}", "d"},
		{"${set+d}${un+d}${empty+d}", "dd"}, {"${un:-${empty:-$set}}", "value"},
		{"${un:-\"}\"}", "}"}, {"${un:-a b}", "a b"}, {"${set:?no}", "value"},
		{"${un:?no}", NULL}, {"${empty?no}", ""}, {"${empty:?no}", NULL},
		{"'$set'\"$set\"", "$setvalue"}, {"\"a\\\"b\\$c\\\\d\\e\"", "a\"b$c\\d\\e"},
		{"\\$set\\a", "$seta"}, {"end\\", "end"}, {"'a\\'", "a\\"}, {"$1$@x", "x"},
		{"'open", NULL}, {"\"open", NULL}, {"${set", NULL}, {"${", NULL}, {"${}", NULL},
		{"${set:-", NULL}, {"${set%x}", NULL}, {"${set:x}", NULL}};
	const struct expand_scope scope = {get, NULL, '\\'};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error e = {0};
		char *out = NULL;
		int r = expand_word(&scope, cases[i].in, &out, &e);

		if ((r == 0) != (cases[i].out != NULL) ||
			(r == 0 && strcmp(out, cases[i].out) != 0))
			fail_msg("%s: %s%s", cases[i].in, out ? out : "", e.message);
		free(out);
	}
}

static void test_expand_limits(void **state)
{
	const struct expand_scope scope = {get, NULL, '`'};
	char deep[EXPAND_DEPTH_MAX * 6 + 64] = "", *out = NULL;
	char *wide = calloc(1, EXPAND_BYTES_MAX + 16);
	struct error e = {0};

	for (int i = 0; i <= EXPAND_DEPTH_MAX; i++)
		strcat(deep, "${u:-");
	assert_true(expand_word(&scope, deep, &out, &e) < 0);
	assert_non_null(strstr(e.message, "nested too deeply"));
	memset(wide, 'x', EXPAND_BYTES_MAX + 1);
	error_clear(&e);
	assert_true(expand_word(&scope, wide, &out, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	wide[EXPAND_BYTES_MAX - 1] = '\0';
	assert_int_equal(expand_word(&scope, wide, &out, NULL), 0);
	free(out);
	memset(wide, 'x', EXPAND_BYTES_MAX + 1); /* a text may be longer */
	assert_int_equal(expand_text(&scope, wide, &out, NULL), 0);
	free(out);
	free(wide);
	assert_int_equal(expand_word(&scope, "`$set\\x", &out, NULL), 0);
	assert_string_equal(out, "$set\\x");
	free(out);
	assert_int_equal(expand_text(&scope, "it's \"$set\" `$x\n", &out, NULL), 0);
	assert_string_equal(out, "it's \"value\" $x\n");
	free(out);
}

/* --- mounts --- */

static void test_mounts(void **state)
{
	struct mount m;

	assert_int_equal(mount_parse("target=/x,from=b,source=/y", &m, NULL), 0);
	assert_true(m.type == MOUNT_BIND && m.read_only);
	assert_string_equal(m.from, "b");
	assert_int_equal(mount_parse("rw,target=/x", &m, NULL), 0);
	assert_false(m.read_only);
	assert_int_equal(
		mount_parse("id=i,mode=0755,uid=7,dst=/x,type=cache,sharing=locked", &m, NULL), 0);
	assert_true(m.type == MOUNT_CACHE && m.mode == 0755 && m.uid == 7 && m.has_mode);
	assert_int_equal(mount_parse("type=secret,id=s,required,env=TOKEN", &m, NULL), 0);
	assert_true(m.required);
	assert_string_equal(m.env, "TOKEN");
	assert_true(mount_parse("type=cache,target=/x,mode=9", &m, NULL) < 0);
	assert_true(mount_parse("type=cache,target=/x,mode=10000", &m, NULL) < 0);
	assert_true(mount_parse("type=cache,target=/x,uid=-1", &m, NULL) < 0);
	assert_true(mount_parse("target=/x,rw=perhaps", &m, NULL) < 0);
	assert_true(mount_parse("target=", &m, NULL) < 0);
	assert_true(mount_parse("target=/x,,", &m, NULL) < 0);
}

/* --- patterns --- */

static void test_patterns(void **state)
{
	char stars[PATTERN_MAX + 1] = "", path[4096] = "";
	static const struct {
		const char *pattern, *path;
		bool plain, folders; /* whether it matches without and with ** */
	} cases[] = {{"a", "a", true, true}, {"a", "b", false, false}, {"a", "a/b", false, true},
		{"b", "a/b", false, false}, {"**/b*", "a/b1/c", false, true},
		{"*.c", "x.c", true, true}, {"*.c", "d/x.c", false, false}, {"*", "", true, true},
		{"a?c", "abc", true, true}, {"a?c", "a/c", false, false},
		{"[a-c]x", "bx", true, true}, {"[^a-c]x", "bx", false, false},
		{"[]a]", "]", true, true}, {"\\*", "*", true, true}, {"\\*", "x", false, false},
		{"**", "a/b/c", false, true}, {"**", "a", true, true}, {"**/x", "x", false, true},
		{"**/x", "a/b/x", false, true}, {"**/x", "a/bx", false, false},
		{"a/**", "a/b/c", false, true}, {"a/**", "a", false, false},
		{"a/**/b", "a/b", false, true}, {"a/**/b", "a/x/y/b", false, true},
		{"a/**/b", "a/xb", false, false}, {"**/*.c", "d/e/x.c", false, true},
		{"a**b", "axb", true, false},
		{"*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false, false},
		{"[", "[", false, false}, {"a\\", "a", false, false}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (pattern_match(cases[i].pattern, cases[i].path) != cases[i].plain)
			fail_msg("%s on %s", cases[i].pattern, cases[i].path);
		if (pattern_match_folders(cases[i].pattern, cases[i].path) != cases[i].folders)
			fail_msg("%s on %s with folders", cases[i].pattern, cases[i].path);
	}
	/* not with the square of the stars for each character */
	memset(stars, '*', PATTERN_MAX - 1);
	stars[PATTERN_MAX - 1] = 'y';
	memset(path, 'x', sizeof(path) - 1);
	for (int i = 0; i < 20; i++)
		assert_false(pattern_match(stars, path));
	assert_true(pattern_is_plain("a/b.c"));
	assert_false(pattern_is_plain("a/?"));
}

static void test_ignore(void **state)
{
	static const char text[] = "# comment\n  *.log \n/out/\n!out/kept\nlib/**/*.o\n"
				   "./a/../b\n!*.md\nREADME*.md\n\n!README-first.md\r\n/\n";
	static const struct {
		const char *path;
		bool out;
	} cases[] = {{"x.log", true}, {"d/x.log", false}, {"out", true}, {"out/x/y", true},
		{"out/kept", false}, {"out/kept/z", false}, {"lib/x.o", true},
		{"lib/a/b/x.o", true}, {"b", true}, {"a", false}, {"README.md", true},
		{"README-first.md", false}, {"# comment", false}};
	struct ignore g;
	struct error e = {0};

	assert_int_equal(ignore_parse(text, strlen(text), &g, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (ignore_excludes(&g, cases[i].path) != cases[i].out)
			fail_msg("%s", cases[i].path);
	ignore_done(&g);
	assert_true(ignore_parse("a\n!\n", 4, &g, &e) < 0);
	assert_non_null(strstr(e.message, "line 2"));
	ignore_done(&g);
	assert_true(ignore_parse("[\n", 2, &g, NULL) < 0);
	ignore_done(&g);
}

static void test_ignore_limit(void **state)
{
	struct buf text = BUF_INIT(1 << 20);
	struct ignore g;
	struct error e = {0};

	for (int i = 0; i <= IGNORE_PATTERNS_MAX; i++)
		assert_int_equal(buf_add_str(&text, "a\n"), 0);
	assert_true(ignore_parse((const char *)buf_head(&text), buf_len(&text), &g, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	ignore_done(&g);
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_read),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_stages), cmocka_unit_test(test_expand),
		cmocka_unit_test(test_expand_limits), cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_patterns), cmocka_unit_test(test_ignore),
		cmocka_unit_test(test_ignore_limit)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
