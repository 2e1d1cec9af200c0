/* The protocol between the host and the agent in a guest, as bytes: no sockets, no state machines.
 * docs/agent-protocol.md is the specification; this header is its form in C.
 *
 * A connection is a byte stream of frames: u8 type, u8 flags, u16 zero, u32 length, then at most
 * AGENT_PAYLOAD_MAX bytes. Integers are little-endian. A message longer than one frame is sent as
 * several frames of its type; all but the last have AGENT_MORE.
 *
 * A string in a payload is u32 length, bytes, NUL. The length does not count the final NUL, and the
 * bytes hold no other. So decoders can return C strings that point into the payload.
 *
 * Both sides decode with the functions below, and each treats the other as hostile: decoders check
 * all that they return. They return 0, -EBADMSG (malformed) or -E2BIG (a field exceeds its
 * maximum); their results borrow from the payload. Encoders append whole frames to a buffer. They
 * return 0, -E2BIG (a field exceeds its maximum), -EINVAL (the format cannot express it), -EMSGSIZE
 * or -ENOMEM (from the buffer). A failing encoder leaves the buffer unchanged. */
#ifndef PROTO_AGENT_WIRE_H
#define PROTO_AGENT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	AGENT_PORT = 1024,	    /* vsock port in the guest */
	AGENT_PROTOCOL_VERSION = 7, /* the newest that this source tree speaks; see agent_hello */

	AGENT_HEADER_BYTES = 8,
	AGENT_PAYLOAD_MAX = 64 * 1024,
	AGENT_MESSAGE_MAX = 512 * 1024, /* after joining AGENT_MORE frames */

	AGENT_ARGV_BYTES_MAX = 128 * 1024, /* as packed, with 5 extra bytes per string */
	AGENT_ARGV_MAX = 8192,
	AGENT_ENV_BYTES_MAX = 256 * 1024,
	AGENT_ENV_MAX = 2048,
	AGENT_PATH_MAX = 4095,
	AGENT_NAME_MAX = 255, /* users, tags, hosts */
	AGENT_TEXT_MAX = 1023,
	AGENT_ENTROPY_MAX = 512,
	AGENT_XATTR_BYTES_MAX = 16 * 1024,
	AGENT_XATTR_MAX = 256,
	AGENT_LIST_DEPTH_MAX = 64,
	AGENT_TREE_NODES_MAX = 1000000,
	AGENT_TASKS_MAX = 32768,
	AGENT_COMMAND_MAX = 1024,  /* bytes of a PROGRAM's arguments */
	AGENT_REPORTS_PER_S = 100, /* events of a TRACE, or of a TRACE_FILES */
	AGENT_OUTSIDE_MAX = 16,	   /* directories of a TRACE_FILES */
	AGENT_OUTSIDE_BYTES_MAX = 8192,
	AGENT_HOLD_MS_MAX = 60 * 1000,

	AGENT_STDIN_WINDOW = 128 * 1024, /* see AGENT_WINDOW */
	AGENT_PROCESSES_MAX = 256,
	AGENT_CONNECTIONS_MAX = 256,
};

/* Frame flags; all others are an error. */
enum { AGENT_MORE = 0x01 };

/* Numbers are never reused. 0x01-0x4f: requests, of which 0x20-0x2f are sent by a client inside a
 * stream. 0x50-0x5f: both ways. From 0x80: sent by the agent. */
enum agent_type {
	AGENT_HELLO = 0x01,	  /* -> HELLO_REPLY */
	AGENT_IDENTITY = 0x02,	  /* -> IDENTITY_REPLY */
	AGENT_SYNC = 0x03,	  /* -> OK */
	AGENT_SHUTDOWN = 0x04,	  /* -> OK, then the guest ends */
	AGENT_GET_METRICS = 0x05, /* empty -> METRICS */
	AGENT_FREEZE = 0x06,	  /* empty -> OK; stops every process but the agent for good, in a
				   * guest that is only inspected. Version 2 */
	AGENT_HOLD = 0x07,	  /* -> OK; pauses every process but the agent for a moment. Version
				   * 3 */
	AGENT_RELEASE = 0x08,	  /* empty -> OK; ends a HOLD */

	AGENT_EXEC = 0x10,	     /* -> STARTED, STDOUT/STDERR/PTY*, EXIT (stream) */
	AGENT_ATTACH = 0x11,	     /* -> STARTED, STDOUT/STDERR/PTY*, EXIT (stream) */
	AGENT_LIST_PROCESSES = 0x12, /* empty -> PROCESS*, END */
	AGENT_SIGNAL_PROCESS = 0x13, /* -> OK */
	AGENT_INPUT = 0x14,	     /* -> OK when the process's pipe or PTY has taken all of it */
	AGENT_CLOSE_INPUT = 0x15,    /* -> OK */
	AGENT_RESIZE_PROCESS = 0x16, /* -> OK */
	AGENT_LIST_TASKS = 0x17,     /* empty -> TASK*, END. Version 2 */
	AGENT_TRACE = 0x18,	     /* empty -> OK, PROGRAM* (stream). Version 5 */
	AGENT_TRACE_FILES = 0x19,    /* -> OK, FILE* (stream). Version 6 */

	/* client to agent, inside the stream of an EXEC or ATTACH */
	AGENT_STDIN = 0x20,	/* raw bytes */
	AGENT_STDIN_EOF = 0x21, /* empty */
	AGENT_SIGNAL = 0x22,
	AGENT_RESIZE = 0x23,
	AGENT_STOP =
		0x24, /* empty; ends EXEC, ATTACH, READ, WATCH, TRACE or TRACE_FILES early -> END.
			    * The process of an EXEC or ATTACH keeps running */

	AGENT_STAT = 0x30,	 /* -> ENTRY */
	AGENT_LIST = 0x31,	 /* -> ENTRY*, END */
	AGENT_READ = 0x32,	 /* -> ENTRY, DATA*, END (stream) */
	AGENT_WRITE = 0x33,	 /* then DATA*, END from the client -> ENTRY (stream) */
	AGENT_MKDIR = 0x34,	 /* -> ENTRY */
	AGENT_MOVE = 0x35,	 /* -> ENTRY */
	AGENT_REMOVE = 0x36,	 /* -> OK; a missing path is success */
	AGENT_SET_ATTR = 0x37,	 /* -> ENTRY */
	AGENT_SET_XATTRS = 0x38, /* -> OK */
	AGENT_WATCH = 0x39,	 /* -> OK, WATCH_EVENT* (stream) */
	AGENT_TREE = 0x3a,	 /* -> NODE*, END. Version 2 */

	AGENT_DIAL = 0x40, /* -> OK, then raw bytes both ways until each side's end of file */

	AGENT_DATA = 0x50, /* raw bytes */
	AGENT_END = 0x51,  /* empty */

	AGENT_OK = 0x80, /* empty */
	AGENT_ERROR = 0x81,
	AGENT_HELLO_REPLY = 0x82,
	AGENT_IDENTITY_REPLY = 0x83,
	AGENT_METRICS = 0x84,
	AGENT_STARTED = 0x90,
	AGENT_STDOUT = 0x91, /* raw bytes; the two below likewise */
	AGENT_STDERR = 0x92,
	AGENT_PTY = 0x93,
	AGENT_EXIT = 0x94,
	AGENT_PROCESS = 0x95,
	AGENT_WINDOW = 0x96, /* the process took bytes of this connection's STDIN. A client keeps at
			      * most AGENT_STDIN_WINDOW bytes unacknowledged, so a SIGNAL never
			      * waits behind input that nobody reads */
	AGENT_TASK = 0x97,
	AGENT_PROGRAM = 0x98,
	AGENT_FILE = 0x99,
	AGENT_ENTRY = 0xb0,
	AGENT_WATCH_EVENT = 0xb1,
	AGENT_NODE = 0xb2,
};

/* The cause of an ERROR. Numbers are never reused. */
enum agent_error_class {
	AGENT_ERR_INTERNAL = 1,	   /* a system call failed, see errno */
	AGENT_ERR_MALFORMED = 2,   /* malformed; the agent then closes the connection */
	AGENT_ERR_UNSUPPORTED = 3, /* unknown type, flag or signal */
	AGENT_ERR_LIMIT = 4,	   /* exceeds a maximum of the protocol or of the guest */
	AGENT_ERR_INVALID = 5,	   /* arguments that contradict each other */
	AGENT_ERR_UNUSABLE = 6,	   /* the guest cannot be used: the message says why */
	AGENT_ERR_NOT_FOUND = 7,   /* no such file or process */
	AGENT_ERR_EXISTS = 8,
	AGENT_ERR_PERMISSION = 9,
	AGENT_ERR_NO_SPACE = 10, /* ENOSPC, EDQUOT */
	AGENT_ERR_NOT_DIRECTORY = 11,
	AGENT_ERR_IS_DIRECTORY = 12,
	AGENT_ERR_NOT_FILE = 13,       /* a device, pipe or socket */
	AGENT_ERR_LOOP = 14,	       /* too many symbolic links */
	AGENT_ERR_NO_COMMAND = 15,     /* exec: not found; exit status 127 by custom */
	AGENT_ERR_NOT_EXECUTABLE = 16, /* exec: found, cannot be executed; 126 */
	AGENT_ERR_BAD_CWD = 17,	       /* exec: working directory */
	AGENT_ERR_BAD_USER = 18,       /* no such user in the guest */
	AGENT_ERR_INPUT_CLOSED = 19,   /* input to a process whose standard input is closed */
	AGENT_ERR_WRONG_KIND = 20,     /* PTY operation on a process with pipes, or the reverse */
	AGENT_ERR_REFUSED = 21,	       /* dial: nothing listens on the port */
};

struct agent_header {
	uint8_t type;
	uint8_t flags;
	uint32_t length;
};

/* A list of strings: packed in a payload when decoded, the caller's array when encoding. All zero
 * when empty. */
struct agent_strings {
	const char *const *array; /* NULL after decoding */
	uint32_t count;
	const uint8_t *packed; /* NULL when encoding */
	uint32_t packed_bytes;
};

/* Decoding gives "" for strings that a message leaves out; encoding writes NULL as "". */

struct agent_hello {
	uint16_t version_min, version_max; /* versions that the host speaks */
};

enum agent_state {
	AGENT_STATE_READY = 1,
	AGENT_STATE_UNUSABLE = 2, /* booted, but without a usable root file system: see problem */
};

enum agent_fact {
	AGENT_FACT_SHELL = 0x01,	 /* /bin/sh is there and executable */
	AGENT_FACT_ROOT_OVERLAY = 0x02,	 /* read-only image below, writable layer above */
	AGENT_FACT_ROOT_VOLATILE = 0x04, /* the writable layer is memory */
	AGENT_FACT_TEST = 0x08,		 /* an ordinary process, not a guest */
	AGENT_FACT_HOST_CLOCK = 0x10,	 /* reads the host's clock, so an IDENTITY may arrive
					  * late */
	AGENT_FACT_NETWORK = 0x20,	 /* flows of programs go to the host */
	AGENT_FACT_NETWORK_WAITS = 0x40, /* and connects wait for its answer */
};

struct agent_hello_reply {
	uint16_t version; /* the highest that both speak, 0 when there is none */
	uint16_t version_min, version_max;
	uint16_t state;	       /* enum agent_state */
	uint32_t facts;	       /* enum agent_fact */
	uint64_t capabilities; /* none are defined in version 1 */
	const char *agent_version;
	const char *boot_id; /* always "": reading it before the snapshot would give siblings the
			      * same one */
	const char *root_fs; /* "ext4", "erofs" */
	const char *problem; /* why the image is unusable, or a warning; "" when all is well */
};

/* The fields that an identity gives. Bit numbers index agent_identity_reply.errs. */
enum agent_identity_field {
	AGENT_ID_CLOCK = 0x01,
	AGENT_ID_ENTROPY = 0x02,
	AGENT_ID_HOSTNAME = 0x04,
	AGENT_ID_MACHINE_ID = 0x08,
	AGENT_ID_ENV = 0x10,
	AGENT_ID_USER = 0x20,
	AGENT_ID_WORKDIR = 0x40,
	AGENT_ID_DISK = 0x80,
};
enum { AGENT_ID_FIELDS = 8 };

/* What bit `1 << n` stands for, in words for people. n: below AGENT_ID_FIELDS. */
const char *agent_id_name(unsigned n);

struct agent_identity {
	uint32_t fields;
	uint64_t realtime_ns; /* CLOCK_REALTIME */
	const uint8_t *entropy;
	uint32_t entropy_bytes;
	const char *hostname;
	const char *machine_id;	  /* 32 hexadecimal digits */
	struct agent_strings env; /* "KEY=value"; replaces the sandbox's whole set */
	const char *user;	  /* default user of EXEC and of files */
	const char *workdir;	  /* default working directory; "" for the user's home */
	uint64_t disk_bytes;	  /* new size of the root disk: the agent waits for it, then grows
				   * ext4 */
};

struct agent_identity_reply {
	uint32_t attempted, failed;	/* masks of enum agent_identity_field */
	uint32_t errs[AGENT_ID_FIELDS]; /* errno for each bit of failed */
};

enum agent_sync_flag {
	AGENT_SYNC_DROP_CACHES = 0x01, /* afterwards: page cache, dentries, inodes */
	AGENT_SYNC_COMPACT = 0x02,     /* afterwards: compact free memory */
	AGENT_SYNC_TRIM = 0x04,	       /* afterwards: tell the disk which blocks are free */
};
struct agent_sync {
	uint32_t flags;
};

struct agent_hold {
	uint32_t limit_ms; /* by the guest's clock, 1 to AGENT_HOLD_MS_MAX; RELEASE or IDENTITY end
			   * it earlier */
};

enum agent_shutdown_flag {
	AGENT_SHUTDOWN_POWER_OFF = 0x01, /* otherwise reset, which ends a microVM */
};
struct agent_shutdown {
	uint32_t flags;
	uint32_t grace_ms; /* from SIGTERM to SIGKILL for all processes; 0: SIGKILL at once */
};

struct agent_metrics {
	uint64_t uptime_ns; /* CLOCK_BOOTTIME */
	uint64_t realtime_ns;
	uint32_t cpus;
	uint32_t tasks;	    /* processes and threads in the whole guest */
	uint32_t processes; /* running processes that the agent started */
	uint64_t cpu_user_ns, cpu_system_ns, cpu_idle_ns, cpu_iowait_ns, cpu_steal_ns;
	uint64_t memory_total_bytes, memory_free_bytes, memory_available_bytes;
	uint64_t memory_cached_bytes;
	uint64_t disk_total_bytes, disk_free_bytes, disk_available_bytes; /* of / */
};

enum agent_exec_flag {
	AGENT_EXEC_PTY = 0x01,		 /* uses cols and rows; stdin is open */
	AGENT_EXEC_STDIN = 0x02,	 /* standard input is a pipe; otherwise /dev/null */
	AGENT_EXEC_KILL_ON_CLOSE = 0x04, /* losing the connection kills the process: SIGHUP to its
					  * process group, SIGKILL a second later */
	AGENT_EXEC_DETACHED = 0x08,	 /* nothing follows STARTED; the connection takes requests
					  * again */
	AGENT_EXEC_KEEP = 0x10,		 /* its end is for those attached alone; with DETACHED its
					  * output is not read before the first ATTACH */
	AGENT_EXEC_BRIEF = 0x20,	 /* EXIT follows 200 ms after its end at the latest, even if
					  * others hold its output open */
};

struct agent_exec {
	uint32_t flags;
	uint16_t cols, rows;
	uint32_t timeout_ms;	   /* 0: none. On expiry the process group gets SIGKILL */
	const char *user;	   /* name, "uid" or "uid:gid"; "": default */
	const char *cwd;	   /* "": default. A relative one is below the user's home */
	const char *tag;	   /* another name for the process; "": none. Unique among running
			      * processes */
	struct agent_strings argv; /* at least one; argv[0] is looked up in the child's PATH */
	struct agent_strings env;  /* "KEY=value"; added to the sandbox's variables, which they
				    * override */
};

struct agent_selector { /* of a process */
	uint32_t pid;	/* 0: select by tag */
	const char *tag;
};

struct agent_attach {
	struct agent_selector process;
};

struct agent_signal_process {
	struct agent_selector process;
	uint32_t signo;
	uint32_t flags; /* enum agent_signal_flag */
};

enum agent_signal_flag {
	AGENT_SIGNAL_GROUP = 0x01, /* to the whole process group; otherwise to the process alone */
};

struct agent_signal {
	uint32_t signo;
	uint32_t flags; /* enum agent_signal_flag */
};

enum agent_input_flag {
	AGENT_INPUT_STDIN = 0x01, /* only if the process has a pipe */
	AGENT_INPUT_PTY = 0x02,	  /* only if the process has a PTY. Neither flag: whatever it has */
};
struct agent_input {
	struct agent_selector process;
	uint32_t flags;
	const uint8_t *data;
	uint32_t data_bytes; /* at most AGENT_PAYLOAD_MAX */
};

struct agent_close_input {
	struct agent_selector process;
};

struct agent_resize_process {
	struct agent_selector process;
	uint16_t cols, rows;
};

struct agent_resize {
	uint16_t cols, rows;
};

struct agent_started {
	uint32_t pid;
};

struct agent_window {
	uint32_t bytes;
};

enum agent_exit_flag {
	AGENT_EXIT_SIGNALED = 0x01, /* status is a signal number; otherwise an exit code */
	AGENT_EXIT_CORE = 0x02,
	AGENT_EXIT_TIMED_OUT = 0x04,
	AGENT_EXIT_UNREAD = 0x08, /* its standard input is a pipe, and nothing of it was read */
};
struct agent_exit {
	uint32_t flags;
	uint32_t status;
	uint64_t user_us, system_us; /* CPU time of the process and of its children that were waited
				      * for */
	uint64_t max_rss_bytes;
};

enum agent_process_flag {
	AGENT_PROCESS_PTY = 0x01,
	AGENT_PROCESS_EXITED = 0x02, /* it ended, but its output is still open */
	/* The EXEC was too long: env, or all arguments but argv[0], are left out. */
	AGENT_PROCESS_TRUNCATED = 0x04,
};
struct agent_process {
	uint32_t pid;
	uint32_t flags;
	uint64_t started_ns; /* CLOCK_REALTIME */
	const uint8_t *exec; /* payload of the EXEC, for agent_exec_decode */
	uint32_t exec_bytes;
};

/* Paths are absolute or relative to the home of `user`; "~" and "~/x" work too. "" is the default
 * working directory. "." and ".." are resolved in the text. Operations run as root. `user` ("":
 * default) selects the home and owns what is created. */

enum agent_stat_flag {
	AGENT_STAT_FOLLOW = 0x01,     /* follow a symbolic link */
	AGENT_STAT_XATTRS = 0x02,     /* include the user.* attributes */
	AGENT_STAT_RESOLVE = 0x04,    /* for links: include target_mode and resolved */
	AGENT_STAT_CAPABILITY = 0x08, /* only STAT: include security.capability among the
				       * attributes, in hexadecimal. Version 7 */
};
struct agent_stat {
	uint32_t flags;
	const char *user;
	const char *path;
};

struct agent_list {
	uint32_t flags; /* XATTRS, RESOLVE; the directory itself is always followed */
	uint32_t depth; /* 1: the directory's entries; at most AGENT_LIST_DEPTH_MAX */
	const char *user;
	const char *path;
};

struct agent_read {
	uint32_t flags; /* 0 */
	uint64_t offset;
	uint64_t length; /* UINT64_MAX: to the end */
	const char *user;
	const char *path;
};

enum agent_write_flag {
	AGENT_WRITE_PARENTS = 0x01,    /* create missing directories, 0755 */
	AGENT_WRITE_KEEP = 0x02,       /* do not truncate: write at offset into what is there */
	AGENT_WRITE_APPEND = 0x04,     /* do not truncate: write at the end */
	AGENT_WRITE_EXCLUSIVE = 0x08,  /* the file must not exist */
	AGENT_WRITE_KEEP_OWNER = 0x10, /* leave an existing file's owner and mode */
};
struct agent_write {
	uint32_t flags;
	uint32_t mode; /* permission bits of a created file */
	uint64_t offset;
	const char *user;
	const char *path;
};

enum agent_mkdir_flag {
	AGENT_MKDIR_PARENTS = 0x01, /* an existing directory still gives EXISTS */
};
struct agent_mkdir {
	uint32_t flags;
	uint32_t mode;
	const char *user;
	const char *path;
};

enum agent_move_flag {
	AGENT_MOVE_PARENTS = 0x01, /* create the destination's parents */
	AGENT_MOVE_NO_REPLACE = 0x02,
};
struct agent_move {
	uint32_t flags;
	const char *user;
	const char *from, *to;
};

enum agent_remove_flag {
	AGENT_REMOVE_RECURSIVE = 0x01,
};
struct agent_remove {
	uint32_t flags;
	const char *user;
	const char *path;
};

enum agent_set_attr_flag {
	AGENT_SET_MODE = 0x01,
	AGENT_SET_OWNER = 0x02,
	AGENT_SET_MTIME = 0x04,
	AGENT_SET_NO_FOLLOW = 0x08, /* change the link itself; not with AGENT_SET_MODE */
};
struct agent_set_attr {
	uint32_t flags;
	uint32_t mode;
	int64_t mtime_ns;
	const char *owner; /* as agent_exec.user */
	const char *user;
	const char *path;
};

/* Extended attributes as name, value, name, value, ...; names are full ("user.x"). Values are text:
 * an entry leaves out values that contain a NUL. */
enum agent_set_xattrs_flag {
	AGENT_XATTRS_REPLACE = 0x01,	/* first remove every attribute whose name starts with
				      * `prefix` */
	AGENT_XATTRS_CAPABILITY = 0x02, /* security.capability may be set, too; its value is
					 * hexadecimal. Version 7 */
};
struct agent_set_xattrs {
	uint32_t flags;
	const char *prefix; /* starts with "user." */
	const char *user;
	const char *path;
	struct agent_strings pairs;
};

struct agent_entry {
	uint32_t mode;	      /* st_mode, type bits included; of the link itself unless FOLLOW */
	uint32_t target_mode; /* st_mode of a link's target, 0 when dangling or not asked for */
	uint32_t uid, gid;
	uint64_t size;
	int64_t mtime_ns;
	const char *path;	   /* absolute */
	const char *owner, *group; /* names, else decimal numbers */
	const char *target;	   /* a link's text */
	const char *resolved;	   /* a link's final target, "" when dangling or not asked for */
	struct agent_strings xattrs;
};

enum agent_watch_flag {
	AGENT_WATCH_RECURSIVE = 0x01,
	AGENT_WATCH_ENTRY = 0x02,	   /* events carry the entry if it still exists */
	AGENT_WATCH_NETWORK_MOUNTS = 0x04, /* allow NFS, SMB and FUSE, where some changes cause no
					    * event */
};
struct agent_watch {
	uint32_t flags;
	const char *user;
	const char *path;
};

enum agent_watch_kind {
	AGENT_WATCH_CREATE = 1,
	AGENT_WATCH_WRITE = 2,
	AGENT_WATCH_REMOVE = 3,
	AGENT_WATCH_RENAME = 4, /* the old name of something that moved away */
	AGENT_WATCH_CHMOD = 5,
	AGENT_WATCH_OVERFLOW = 6, /* events were lost */
	AGENT_WATCH_GONE = 7,	  /* the watched directory itself was removed or moved; no event
				   * follows */
};
struct agent_watch_event {
	uint32_t kind;
	const char *name;     /* relative to the watched directory */
	const uint8_t *entry; /* payload for agent_entry_decode, or empty */
	uint32_t entry_bytes;
};

/* Lists everything below a directory, at any depth. Names are sorted by bytes; a directory's
 * content follows it directly. Only file systems that hold the sandbox's files are entered: not
 * proc, sysfs, devices or network file systems. Unreadable entries and overlong paths are left
 * out. */
struct agent_tree {
	uint32_t flags; /* 0 */
	const char *user;
	const char *path;
};

struct agent_node { /* lstat: of a link itself */
	uint32_t mode;
	uint32_t uid, gid;
	uint64_t inode;
	uint64_t device; /* of a device file: its device number */
	uint64_t size;
	int64_t mtime_ns, ctime_ns;
	const char *path;
	const char *target; /* a link's text */
};

/* A process in the guest, however it was started. Kernel threads, the agent and ended processes are
 * left out. pid and start together identify it within one boot. */
struct agent_task {
	uint32_t pid;
	uint32_t parent;
	uint64_t start;	     /* in clock ticks since boot, as the kernel counts */
	const char *command; /* arguments joined by blanks, or [name]; may be cut */
};

/* A program that another program in the guest started, or how one ended. What EXEC starts is left
 * out, unless it becomes another program. */
enum agent_program_event {
	AGENT_PROGRAM_STARTED = 1,
	AGENT_PROGRAM_ENDED = 2,
	AGENT_PROGRAM_LOST = 3, /* `value` starts and ends were not told, about */
};
struct agent_program {
	uint32_t event;
	uint32_t pid; /* of the next three, only `pid` with ENDED, and none with LOST */
	uint32_t parent;
	uint32_t uid;		/* the effective one; UINT32_MAX: not known */
	uint32_t value;		/* ENDED: the status, as of wait(2) */
	const uint8_t *command; /* STARTED: its arguments, each ended by a NUL, as many bytes as
				 * fit; none if it has ended meanwhile. Then `parent` is 0 */
	uint32_t command_bytes; /* at most AGENT_COMMAND_MAX */
};

/* The directories whose files are left out: absolute, without a slash at the end, and as the kernel
 * names them (no symbolic links). None: no file is left out. */
struct agent_trace_files {
	struct agent_strings outside;
};

/* A file that a program in the guest had open for writing, and has closed. What clients write
 * through the agent is left out. */
enum agent_file_event {
	AGENT_FILE_WRITTEN = 1,
	AGENT_FILE_LOST = 2, /* `value` writes were not told, about */
};
struct agent_file {
	uint32_t event;
	uint32_t pid; /* of the program */
	uint32_t value;
	const char *path; /* absolute */
};

struct agent_dial {
	uint16_t port;	  /* TCP */
	const char *host; /* IP address; "": 127.0.0.1, then ::1 */
};

struct agent_error {
	uint16_t class;	  /* enum agent_error_class */
	uint16_t request; /* enum agent_type of the failed request, 0 when unknown */
	uint32_t err;	  /* errno of the guest, 0 when none applies */
	const char *message;
};

/* --- frames --- */

void agent_header_encode(
	uint8_t out[AGENT_HEADER_BYTES], uint8_t type, uint8_t flags, uint32_t length);
/* -EBADMSG for unknown flags, a non-zero reserved field, or a length over AGENT_PAYLOAD_MAX. */
int agent_header_decode(const uint8_t data[AGENT_HEADER_BYTES], struct agent_header *ret);

/* Appends one frame with n raw bytes (STDIN, DATA, STDOUT, ...); n may be 0. */
int agent_add_raw(struct buf *out, enum agent_type type, const void *data, size_t n);

/* A received message. The payload is borrowed from the receiver. */
struct agent_frame {
	uint8_t type;
	const uint8_t *payload;
	size_t length;
};

/* The receiving half of a connection: takes bytes and returns whole messages. */
struct agent_rx {
	struct buf in;	    /* bytes not yet taken */
	struct buf message; /* a message of several frames, while it is joined and used */
	uint8_t joining;    /* type of the message in `message`, 0 when none */
	bool complete;	    /* `message` is whole */
	bool unread;	    /* hand out `message` again */
	size_t used;	    /* bytes of `in` handed out; the next call consumes them */
};

void agent_rx_init(struct agent_rx *rx);
void agent_rx_done(struct agent_rx *rx);
/* Where to read to, and how much fits (*n > 0). NULL when memory is short or messages must be taken
 * first. Call agent_rx_received with the number of bytes read. */
uint8_t *agent_rx_space(struct agent_rx *rx, size_t *n);
void agent_rx_received(struct agent_rx *rx, size_t n);
/* 1 and a message, valid until the next call; 0: more bytes are needed. On -EBADMSG, -E2BIG
 * (message over AGENT_MESSAGE_MAX) or -ENOMEM the stream is lost. */
int agent_rx_next(struct agent_rx *rx, struct agent_frame *ret);
/* Puts the last message back: the next call returns it again. */
void agent_rx_unread(struct agent_rx *rx);
/* Releases the last message, so that `in` starts with the bytes after it. For DIAL, after which the
 * stream has no frames. */
void agent_rx_release(struct agent_rx *rx);

/* --- messages: agent_NAME_encode(out, m) and agent_NAME_decode(payload, n, m) --- */

#define AGENT_MESSAGES(X)                                                                          \
	X(hello, AGENT_HELLO)                                                                      \
	X(hello_reply, AGENT_HELLO_REPLY)                                                          \
	X(identity, AGENT_IDENTITY)                                                                \
	X(identity_reply, AGENT_IDENTITY_REPLY)                                                    \
	X(sync, AGENT_SYNC)                                                                        \
	X(hold, AGENT_HOLD)                                                                        \
	X(shutdown, AGENT_SHUTDOWN)                                                                \
	X(metrics, AGENT_METRICS)                                                                  \
	X(exec, AGENT_EXEC)                                                                        \
	X(attach, AGENT_ATTACH)                                                                    \
	X(signal_process, AGENT_SIGNAL_PROCESS)                                                    \
	X(input, AGENT_INPUT)                                                                      \
	X(close_input, AGENT_CLOSE_INPUT)                                                          \
	X(resize_process, AGENT_RESIZE_PROCESS)                                                    \
	X(signal, AGENT_SIGNAL)                                                                    \
	X(resize, AGENT_RESIZE)                                                                    \
	X(started, AGENT_STARTED)                                                                  \
	X(window, AGENT_WINDOW)                                                                    \
	X(exit, AGENT_EXIT)                                                                        \
	X(process, AGENT_PROCESS)                                                                  \
	X(stat, AGENT_STAT)                                                                        \
	X(list, AGENT_LIST)                                                                        \
	X(read, AGENT_READ)                                                                        \
	X(write, AGENT_WRITE)                                                                      \
	X(mkdir, AGENT_MKDIR)                                                                      \
	X(move, AGENT_MOVE)                                                                        \
	X(remove, AGENT_REMOVE)                                                                    \
	X(set_attr, AGENT_SET_ATTR)                                                                \
	X(set_xattrs, AGENT_SET_XATTRS)                                                            \
	X(entry, AGENT_ENTRY)                                                                      \
	X(watch, AGENT_WATCH)                                                                      \
	X(watch_event, AGENT_WATCH_EVENT)                                                          \
	X(tree, AGENT_TREE)                                                                        \
	X(node, AGENT_NODE)                                                                        \
	X(task, AGENT_TASK)                                                                        \
	X(program, AGENT_PROGRAM)                                                                  \
	X(trace_files, AGENT_TRACE_FILES)                                                          \
	X(file, AGENT_FILE)                                                                        \
	X(dial, AGENT_DIAL)                                                                        \
	X(error, AGENT_ERROR)

/* The codec behind them. `message` is the struct that AGENT_MESSAGES names for the type. */
int agent_encode(struct buf *out, enum agent_type type, const void *message);
int agent_decode(enum agent_type type, const void *payload, size_t n, void *message);

#define AGENT_CODEC_(name, type)                                                                   \
	static inline int agent_##name##_encode(struct buf *out, const struct agent_##name *m)     \
	{                                                                                          \
		return agent_encode(out, type, m);                                                 \
	}                                                                                          \
	static inline int agent_##name##_decode(                                                   \
		const void *payload, size_t n, struct agent_##name *ret)                           \
	{                                                                                          \
		return agent_decode(type, payload, n, ret);                                        \
	}
AGENT_MESSAGES(AGENT_CODEC_)
#undef AGENT_CODEC_

/* Walks strings of either form. *pos starts at 0. False after the last string. */
bool agent_strings_next(const struct agent_strings *s, size_t *pos, const char **ret);

/* Lower-case word for an error class ("not_found"), and name of a message type ("EXEC"). */
const char *agent_error_class_name(unsigned class);
const char *agent_type_name(unsigned type);

#endif
