/* Whose ssh host keys are renewed, with the real ssh-keygen. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host_keys.h"
#include "base/file.h"
#include "base/str.h"

static char top[] = "/tmp/test_host_keys.XXXXXX";
static int dir = -1;

static int set_up(void **state)
{
	(void)state; /* the directory is static */
	strcpy(top + strlen(top) - 6, "XXXXXX");
	if (!mkdtemp(top))
		return -1;
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;	  /* as above */
	(void)close(dir); /* only read */
	return file_remove_tree(AT_FDCWD, top);
}

static char *name_of(const char *type, const char *end)
{
	char *name = str_printf("ssh_host_%s_key%s", type, end);

	assert_non_null(name);
	return name;
}

/* comment NULL: ssh-keygen's own. */
static void make(const char *type, const char *comment)
{
	const char *argv[] = {"ssh-keygen", "-q", "-N", "", "-t", type, "-f", name_of(type, ""),
		NULL, NULL, NULL};
	pid_t pid;
	int status;

	if (comment) {
		argv[8] = "-C";
		argv[9] = comment;
	}
	pid = fork();
	if (pid == 0) {
		if (fchdir(dir) == 0)
			execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free((void *)argv[7]);
}

static char *text_of(const char *type, const char *end)
{
	char *name = name_of(type, end), *text = NULL;

	if (file_read(dir, name, 1 << 16, &text, NULL) < 0)
		text = NULL;
	free(name);
	return text;
}

static struct host_keys renew(void)
{
	struct host_keys keys;

	assert_int_equal(host_keys_renew(dir, &keys), 0);
	return keys;
}

static void test_only_those_of_others(void **state)
{
	char *own, *other, *now, *public, host[256], *end;
	struct host_keys keys;
	struct stat st;

	assert_false(renew().changed); /* none there */
	make("ed25519", "root@another");
	make("ecdsa", NULL);
	other = text_of("ed25519", "");
	own = text_of("ecdsa", "");

	keys = renew();
	assert_true(keys.changed);
	assert_int_equal(keys.problem, 0);
	now = text_of("ed25519", "");
	assert_non_null(now);
	assert_string_not_equal(now, other);
	free(other);
	free(now);
	now = text_of("ecdsa", "");
	assert_string_equal(now, own);
	free(now);
	free(own);
	assert_int_equal(fstatat(dir, "ssh_host_ed25519_key", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(gethostname(host, sizeof(host)), 0);
	public = text_of("ed25519", ".pub");
	end = str_printf("@%s\n", host);
	assert_true(str_ends_with(public, end));
	free(end);
	free(public);
	assert_false(renew().changed); /* they are this host's now */
	assert_false(file_exists(dir, "ssh_host_rsa_key"));
}

/* A key whose public half does not say whose it is; links and pipes in its place. */
static void test_what_is_no_key(void **state)
{
	char *now;

	make("ed25519", NULL);
	assert_int_equal(unlinkat(dir, "ssh_host_ed25519_key.pub", 0), 0);
	assert_int_equal(mkfifoat(dir, "ssh_host_ed25519_key.pub", 0600), 0);
	assert_int_equal(symlinkat("target", dir, "ssh_host_ecdsa_key"), 0);
	assert_int_equal(close(openat(dir, "target", O_CREAT | O_WRONLY, 0600)), 0);
	assert_true(renew().changed);
	assert_true(file_exists(dir, "target")); /* not what the link led to */
	for (int i = 0; i < 2; i++) {
		now = text_of(i ? "ed25519" : "ecdsa", ".pub");
		assert_non_null(now);
		assert_non_null(strrchr(now, '@'));
		free(now);
	}
	assert_false(renew().changed);
}

/* A shared key is gone also where no other can be made: no byte can be written, as on a full
 * disk. */
static void test_not_made(void **state)
{
	struct rlimit before, none;
	struct host_keys keys;

	make("ed25519", "root@another");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	keys = renew();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_true(keys.changed);
	assert_int_equal(keys.problem, EIO);
	assert_false(file_exists(dir, "ssh_host_ed25519_key"));
	assert_false(file_exists(dir, "ssh_host_ed25519_key.pub"));
}

static void test_not_removed(void **state)
{
	struct host_keys keys;

	make("ed25519", "root@another");
	assert_int_equal(unlinkat(dir, "ssh_host_ed25519_key.pub", 0), 0);
	assert_int_equal(mkdirat(dir, "ssh_host_ed25519_key.pub", 0700), 0);
	assert_int_equal(host_keys_renew(dir, &keys), -EISDIR);
	assert_false(file_exists(dir, "ssh_host_ed25519_key"));
}

static pid_t start_child(const char *name)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		FILE *f = fopen("/proc/self/comm", "w");

		if (f && fputs(name, f) >= 0 && fclose(f) == 0 && write(ready[1], "x", 1) == 1)
			(void)pause();
		_exit(1);
	}
	assert_int_equal(close(ready[1]), 0);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(close(ready[0]), 0);
	return pid;
}

static void reload(pid_t pid)
{
	char text[16], *path = str_printf("%s/pid", top);

	(void)snprintf(text, sizeof(text), "%d\n", (int)pid);
	assert_int_equal(file_write_atomic(dir, "pid", text, strlen(text), 0644), 0);
	host_keys_reload(path);
	free(path);
}

/* Only a process that is an sshd. */
static void test_reload(void **state)
{
	pid_t server = start_child("sshd"), other = start_child("other");
	int status;

	host_keys_reload("/nonexistent");
	reload(other);
	reload(server);
	assert_int_equal(waitpid(server, &status, 0), server);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	reload(other); /* not there any more */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_only_those_of_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_no_key, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_made, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_removed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reload, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
