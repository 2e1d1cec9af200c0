/* What goes between a microVM's process, its owner and the launcher: errors as text, the files of a
 * snapshot as words with descriptors, requests for a jailed process. The first byte chooses; what
 * is accepted comes back the same, and no descriptor is lost or closed twice. */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jail/request.h"
#include "vmm/control.h"
#include "vmm/snapshot_files.h"

static void fuzz_error(const char *text)
{
	char out[CONTROL_MESSAGE_MAX];
	struct error e = {0}, again = {0};

	control_parse_error(text, &e);
	check(e.code != ERROR_NONE);
	control_format_error(&e, "error", out);
	check(strncmp(out, "error ", 6) == 0);
	control_parse_error(out + 6, &again);
	check(again.code == e.code && again.err == e.err);
}

static void fuzz_needs(const char *text)
{
	struct snapshot_needs n, again;
	char out[SNAPSHOT_NEEDS_BYTES];

	if (snapshot_needs_parse(text, &n) < 0)
		return;
	snapshot_needs_format(&n, out);
	check(snapshot_needs_parse(out, &again) == 0);
	check(memcmp(n.part, again.part, sizeof(n.part)) == 0);
	check(n.memory_full == again.memory_full);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void fuzz_files(unsigned count, const char *words)
{
	struct snapshot_files files;
	struct control_fds fds = {.count = count % (CONTROL_FDS_MAX + 1)};
	struct error e = {0};
	int sent[CONTROL_FDS_MAX];

	for (unsigned i = 0; i < fds.count; i++) {
		sent[i] = fds.fd[i] = memfd_create("file", MFD_CLOEXEC);
		check(sent[i] >= 0);
	}
	if (snapshot_files_take(words, &fds, &files, &e) == 0) {
		for (unsigned i = 0; i < SNAPSHOT_PARTS; i++)
			check(files.fd[i] < 0 || is_open(files.fd[i]));
		snapshot_files_close(&files);
	} else {
		check(e.code == ERROR_USAGE);
	}
	control_fds_close(&fds);
	for (unsigned i = 0; i < count % (CONTROL_FDS_MAX + 1); i++)
		check(!is_open(sent[i]));
}

static bool same_strings(char *const *a, char *const *b)
{
	while (*a && *b && strcmp(*a, *b) == 0)
		a++, b++;
	return !*a && !*b;
}

static void fuzz_request(unsigned sent, const uint8_t *data, size_t size)
{
	static char bytes[JAIL_REQUEST_MAX], again_bytes[JAIL_REQUEST_MAX];
	struct jail_request r, again;
	size_t n = size < sizeof(bytes) ? size : sizeof(bytes);
	int used;

	memcpy(bytes, data, n);
	if (jail_request_decode(bytes, n, sent, &r) < 0)
		return;
	used = jail_request_encode(&r, again_bytes);
	check(used > 0);
	check(jail_request_decode(again_bytes, (size_t)used, sent, &again) == 0);
	check(again.fd_count == r.fd_count && again.has_cgroup == r.has_cgroup);
	check(same_strings(r.argv, again.argv) && same_strings(r.env, again.env));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 2)
		return 0;
	text = text_of(data + 2, size - 2);
	switch (data[0] % 4) {
	case 0:
		fuzz_error(text);
		break;
	case 1:
		fuzz_needs(text);
		break;
	case 2:
		fuzz_files(data[1], text);
		break;
	default:
		fuzz_request(data[1] % (JAIL_FDS_SENT_MAX + 2), data + 2, size - 2);
	}
	free(text);
	return 0;
}
