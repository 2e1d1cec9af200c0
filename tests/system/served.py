"""What tests of the daemon share: the daemon itself, clients over raw sockets, RPCs of envd, and the
check that store, processes and files agree. With --vm the real `mayfly serve`, on a host whose KVM
boots guests and with TEST_TEMPLATE in MAYFLY_HOME; with --bare the same with bare guests, which any
/dev/kvm runs at full speed (tests/guests/agent.c); else native agents (serve-native)."""
import base64
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
BARE = "--bare" in sys.argv
VM = BARE or "--vm" in sys.argv
TEMPLATE = "bare" if BARE else os.environ.get("TEST_TEMPLATE", "base") if VM else "base"
MAYFLY = os.path.join(BUILD, "mayfly")
RUNNING, PAUSING, PAUSED = 0, 1, 2  # as STORE_RUNNING


PATIENCE_S = 120 if VM and not BARE else 20  # with an answer


def eventually(fn, seconds=60):
    end = time.monotonic() + seconds
    while True:
        result = fn()
        if result or time.monotonic() > end:
            return result
        time.sleep(0.02)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def started(pid):
    """Field 22 of its stat, or None."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return int(f.read().rsplit(")", 1)[1].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


class Daemon:
    program = MAYFLY  # with --vm
    native = os.path.join(BUILD, "src/daemon/serve-native")  # without
    agent = os.path.join(BUILD, "src/agent/mayfly-agent-native")  # of that

    def __init__(self, home, options=()):
        self.home, self.process, self.port, self.options = home, None, 0, tuple(options)
        self.run = os.path.join(home, "run")
        self.env = {"MAYFLY_LIBEXEC": os.path.realpath(BUILD), **os.environ, "MAYFLY_HOME": home, "MAYFLY_RUN": self.run}

    def launch(self):
        """Starts it without waiting until it serves."""
        command = [self.program, "serve", "--listen", "127.0.0.1:0", *self.options] if VM else [
            self.native, *self.options, self.agent, "127.0.0.1:0"]
        path = os.path.join(self.home, "log")
        with open(path, "a") as log:
            self.log_at = os.path.getsize(path)
            self.process = subprocess.Popen(command, env=self.env, stdout=log, stderr=log)

    def start(self):
        self.launch()
        self.port = 0
        eventually(lambda: self.find_port() or self.process.poll() is not None, 60)
        assert self.port, "the daemon does not start: " + self.log()[-500:]

    def log(self):
        with open(os.path.join(self.home, "log"), errors="replace") as f:
            f.seek(self.log_at)
            return f.read()

    def find_port(self):
        m = re.search(r"port (\d+)", self.log())
        self.port = int(m.group(1)) if m else 0
        return m

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        return self.process.wait(20)

    def key(self, name, *more):
        out = subprocess.run([MAYFLY, "keys", "create", *more, name], env=self.env, check=True,
                             capture_output=True, text=True).stdout.strip()
        assert re.fullmatch(r"e2b_[0-9a-f]{40}", out), out
        return out

    def directories(self):
        return sorted(n for n in listing(self.run) if n[0] == "i")

    def kept(self, area):
        """The states in `paused` or `snapshots`, unfinished ones too."""
        return set(listing(os.path.join(self.home, area)))

    def pid_of(self, sandbox):
        with open(os.path.join(self.run, sandbox, "sandbox.json")) as f:
            return json.load(f)["vmm_pid"]

    def rows(self, sql, *values):
        db = sqlite3.connect(f"file:{self.home}/mayfly.db?mode=ro", uri=True, timeout=10)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"RssAnon:\s*(\d+)", f.read()).group(1))


# --- HTTP ---

class Client:
    """One connection; reads answers as they are framed."""

    tls = None  # an ssl.SSLContext, for a daemon whose port speaks TLS

    def __init__(self, port, timeout=PATIENCE_S):
        """port: a number, or the path of a Unix socket."""
        if isinstance(port, str):
            self.s = socket.socket(socket.AF_UNIX)
            self.s.settimeout(timeout)
            self.s.connect(port)
        else:
            self.s = socket.create_connection(("127.0.0.1", port), timeout=timeout)
            if self.tls:
                self.s = self.tls.wrap_socket(self.s, server_hostname="localhost")
        self.data = b""

    def send(self, text):
        self.s.sendall(text.encode("latin-1") if isinstance(text, str) else text)

    def more(self):
        part = self.s.recv(65536)
        self.data += part
        return part

    def line(self, end=b"\r\n"):
        while end not in self.data:
            if not self.more():
                raise EOFError(self.data)
        line, self.data = self.data.split(end, 1)
        return line

    def take(self, n):
        while len(self.data) < n:
            if not self.more():
                raise EOFError(self.data)
        part, self.data = self.data[:n], self.data[n:]
        return part

    def head(self):
        lines = self.line(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = dict((k.lower(), v.strip()) for k, v in (x.split(":", 1) for x in lines[1:]))
        return int(lines[0].split()[1]), fields

    def chunk(self):
        """Of a streamed answer; b"" at its end."""
        n = int(self.line(), 16)
        part = self.take(n)
        self.take(2)
        return part

    def answer(self):
        status, fields = self.head()
        if fields.get("transfer-encoding") == "chunked":
            body = b"".join(iter(self.chunk, b""))
        else:
            body = self.take(int(fields.get("content-length", 0)))
        return status, fields, body

    def at_end(self):
        try:
            while self.more():
                pass
            return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def leave(self):
        """Closes at once, with a reset, as a client that is killed with unread bytes does."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()


def ask(port, method, path, key=None, body=None, headers=(), raw=False, host="127.0.0.1"):
    c = Client(port)
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    if key:
        lines.append(f"X-API-Key: {key}")
    if body is not None:
        lines.append(f"Content-Length: {len(data)}")
    try:
        c.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)
        status, fields, text = c.answer()
    finally:
        c.s.close()
    if raw:
        return status, fields, text
    return status, (json.loads(text) if text else None)


def create(d, key, **more):
    """The id of a new sandbox."""
    return create_at("/v2/sandboxes", d, key, more)


def create_open(d, key, **more):
    """The same; its envd asks for no token."""
    return create_at("/sandboxes", d, key, {"timeout": 300, **more})


def create_at(path, d, key, more):
    status, body = ask(d.port, "POST", path, key, {"templateID": TEMPLATE, **more})
    assert status == 201, (status, body)
    return body["sandboxID"]


def kill(d, key, sandbox):
    return ask(d.port, "DELETE", f"/sandboxes/{sandbox}", key)[0]


def ids(d, key):
    """d: the daemon, or the path of its Unix socket."""
    port = d if isinstance(d, str) else d.port
    return sorted(s["sandboxID"] for s in ask(port, "GET", "/v2/sandboxes", key)[1])


# --- envd ---

class Stream(Client):
    """A streaming RPC: its messages as they come, then what ended it."""

    def __init__(self, d, sandbox, method, message, more=()):
        super().__init__(d.port)
        data = json.dumps(message).encode()
        self.send("\r\n".join([
            f"POST /{method} HTTP/1.1", f"Host: 49983-{sandbox}.test",
            "Content-Type: application/connect+json", "Connect-Protocol-Version: 1",
            f"Content-Length: {len(data) + 5}", *more]) + "\r\n\r\n")
        self.send(struct.pack(">BI", 0, len(data)) + data)
        self.rest = b""
        self.status, self.fields = self.head()

    def message(self):
        """(flags, message)"""
        while len(self.rest) < 5 or len(self.rest) < 5 + struct.unpack(">I", self.rest[1:5])[0]:
            part = self.chunk()
            if not part:
                raise EOFError(self.rest)
            self.rest += part
        n = 5 + struct.unpack(">I", self.rest[1:5])[0]
        one, self.rest = self.rest[:n], self.rest[n:]
        return one[0], json.loads(one[5:] or b"{}")

    def event(self):
        flags, message = self.message()
        assert not flags & 2 and "event" in message, message
        return message["event"]

    def end(self):
        """The code of the error that ends it, None for a good end; what comes before is dropped."""
        while True:
            flags, message = self.message()
            if flags & 2:
                return message.get("error", {}).get("code")

    def is_cut(self):
        """Whether the connection ends without an end frame, as E2B's does when the sandbox is gone."""
        try:
            self.end()
            return False
        except (EOFError, ConnectionResetError):
            return True


def start(d, sandbox, script, more=(), **options):
    """A shell command; its `start` was received, and s.pid is its number in the sandbox."""
    s = Stream(d, sandbox, "process.Process/Start",
               {"process": {"cmd": "/bin/sh", "args": ["-c", script]}, **options}, more)
    assert s.status == 200, s.status
    s.pid = s.event()["start"]["pid"]
    return s


def output(d, sandbox, script, more=()):
    """Standard output and exit code of a shell command."""
    s, out = start(d, sandbox, script, more), b""
    while True:
        event = s.event()
        if "end" in event:
            s.s.close()
            return out, event["end"].get("exitCode", 0)
        out += base64.b64decode(event.get("data", {}).get("stdout", ""))


def unary(d, sandbox, method, message):
    return ask(d.port, "POST", f"/{method}", body=message, host=f"49983-{sandbox}.test",
               headers=["Content-Type: application/json"])


# --- the state of everything ---

def parents():
    """{pid: (its parent's pid, its name)} of all processes."""
    found = {}
    for pid in listing("/proc"):
        with contextlib.suppress(OSError):
            if pid.isdigit():
                with open(f"/proc/{pid}/stat", errors="replace") as f:
                    name, rest = f.read().rsplit(")", 1)
                found[int(pid)] = int(rest.split()[1]), name.split("(", 1)[1]
    return found


def descendants(pid, name):
    """The pids of processes of that name below one."""
    of = parents()

    def is_below(p):
        while p in of and p != pid:
            p = of[p][0]
        return p == pid

    return [p for p, (_, called) in of.items() if called == name and is_below(p)]


def links_of(pid):
    """Where its directory and descriptors lead."""
    for name in [f"/proc/{pid}/cwd"] + [f"/proc/{pid}/fd/{n}" for n in listing(f"/proc/{pid}/fd")]:
        try:
            yield os.readlink(name)
        except OSError:
            pass


def listing(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def machines():
    """All processes that run a microVM, whoever started them."""
    found = set()
    for pid in listing("/proc"):
        try:
            with open(f"/proc/{pid}/comm", errors="replace") as f:
                if f.read() == "mayfly-vmm\n" and alive(int(pid)):
                    found.add(int(pid))
        except OSError:
            pass
    return found


NOWHERE = "no directory"
OTHERS = machines() if VM else set()


def owners(d):
    """pid: sandbox, of every process that is inside a sandbox's directory, the daemon excepted, and
    of every microVM that was not there before the test (with bare guests, other tests have some)."""
    ours = (os.getpid(), d.process.pid)
    found = dict.fromkeys(machines() - OTHERS, NOWHERE) if VM and not BARE else {}
    for pid in listing("/proc"):
        if not pid.isdigit() or int(pid) in ours or not alive(int(pid)):
            continue
        for link in links_of(pid):
            if link.startswith(d.run + "/i"):
                found[int(pid)] = link[len(d.run) + 1:].split("/")[0].split(" ")[0]
    return found


def differing(area, states, rows):
    return [f"{area}: {i} without a row" for i in states - rows] + [
        f"{area}: {i} has no state" for i in rows - states]


def disagreements(d):
    """What store, processes and files say differently, as a list of sentences: none when each
    sandbox has a row that says running, a directory, and the process that the row names, or a row
    that says paused and a state, each snapshot has both, and nothing is left of any other."""
    rows = {r[0]: r[1:] for r in d.rows("SELECT id, state, vmm_pid, vmm_start FROM sandboxes")}
    paused = {i for i, r in rows.items() if r[0] == PAUSED}
    rows = {i: r for i, r in rows.items() if i not in paused}
    directories, found = set(d.directories()), owners(d)
    wrong = differing("paused", d.kept("paused"), paused)
    wrong += differing("snapshots", d.kept("snapshots"),
                       {r[0] for r in d.rows("SELECT id FROM snapshots")})
    wrong += [f"{i}: a directory without a row" for i in directories - set(rows)]
    wrong += [f"{i}: a row without a directory" for i in set(rows) - directories]
    wrong += [f"{i}: its state is {r[0]}" for i, r in rows.items() if r[0] != RUNNING]
    wrong += [f"{i}: its process {r[1]} is not the one that the row names"
              for i, r in rows.items() if not alive(r[1]) or started(r[1]) != r[2]]
    wrong += [f"{i}: process {pid} without a row" for pid, i in found.items() if i not in rows]
    wrong += [f"{i}: no process" for i in rows if i not in found.values()]
    return wrong


def settled(d, seconds=60):
    """Fails unless everything agrees soon."""
    assert eventually(lambda: not disagreements(d), seconds), disagreements(d)


# --- running tests ---

AREAS = ("kernels", "images", "templates")


def make_bare(home, name=TEMPLATE, mib=()):
    """mib: (N,) gives its image a delta of N MiB."""
    guests = os.path.join(BUILD, "tests/guests")
    subprocess.run([f"{guests}/bare-template", f"{guests}/agent", name, *map(str, mib)], check=True, capture_output=True,
                   env={**os.environ, "MAYFLY_HOME": home, "MAYFLY_LIBEXEC": os.path.realpath(BUILD)})


def make_home(prefix):
    home = tempfile.mkdtemp(prefix=prefix)
    if BARE:
        make_bare(home)
    elif VM:  # the store and the sandboxes of the test are its own
        for area in AREAS:
            os.symlink(os.path.join(os.environ["MAYFLY_HOME"], area), os.path.join(home, area))
    return home


def copy(source, target):
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def copy_template(source, target):
    """Without the snapshots for other sizes than its own: earlier tests may have asked for many."""
    with open(os.path.join(source, "template.json")) as f:
        about = json.load(f)
    own = os.path.join("snapshots", f"{about['cpus']}c-{about['memory_mb']}m")
    os.makedirs(os.path.join(target, "snapshots"))
    for name in (own, *(n for n in os.listdir(source) if n != "snapshots")):
        copy(os.path.join(source, name), os.path.join(target, name))


def copy_templates(home, others=()):
    """A copy of its own of TEST_TEMPLATE, and of others, for an empty directory: snapshots need what they
    stand on on their own file system, and a small one has no room for all templates."""
    source = os.environ["MAYFLY_HOME"]
    os.symlink(os.path.join(source, "images"), os.path.join(home, "images"))
    copy(os.path.join(source, "kernels"), os.path.join(home, "kernels"))
    for name in (TEMPLATE, *others):
        copy_template(os.path.join(source, "templates", name), os.path.join(home, "templates", name))


def write_template(d, created, name=TEMPLATE):
    """A template's description without its files, as a build would leave it: for native agents."""
    path = os.path.join(d.home, "templates", name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "new"), "w") as f:
        json.dump({"format": 1, "kind": "ext4", "kernel_release": "x", "agent_version": "1",
                   "image_digest": "0" * 64, "created": created, "description": "", "cpus": 2,
                   "memory_mb": 512, "disk_mb": 1024, "user": "root", "workdir": "",
                   "start_command": "", "ready_command": "", "warm_command": "", "env": []}, f)
    os.rename(os.path.join(path, "new"), os.path.join(path, "template.json"))


def raise_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def slow(test):
    """A test that `make check` has no time for: it runs in `make check-all`, and by name."""
    test.slow = True
    return test


def chosen(names):
    """The test_... functions among a program's names; with arguments only those that they name."""
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    tests = [fn for name, fn in names.items() if name.startswith("test_")]
    if only:
        return [fn for fn in tests if fn.__name__[5:] in only]
    return [fn for fn in tests if "TEST_THOROUGH" in os.environ or not hasattr(fn, "slow")]


class Skip(Exception):
    """A test cannot run here; why."""


def run_tests(name, tests, home, options=()):
    """Each with the daemon and a key that may do everything; the exit status."""
    d, failures = Daemon(home, options), 0
    d.start()
    key = d.key("test", "--max-sandboxes", "100", "--max-creates", "100000")
    for test in tests:
        title, begin = test.__name__[5:], time.monotonic()
        try:
            test(d, key)
            print(f"ok - {name}: {title} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Skip as e:
            print(f"skip - {name}: {title}: {e}", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            failures += 1
            where = e.__traceback__
            while where.tb_next:
                where = where.tb_next
            print(f"not ok - {name}: {title}: line {where.tb_lineno}: {e!r}", flush=True)
            if d.process.poll() is not None:
                d.start()
    operator = os.path.join(home, "daemon.sock")
    for sandbox in ids(operator, None):
        ask(operator, "DELETE", f"/sandboxes/{sandbox}")
    if not eventually(lambda: d.directories() == []):
        failures += 1
        print(f"not ok - {name}: left behind: {d.directories()}")
    status = d.stop()
    if status:
        failures += 1
        print(f"not ok - {name}: the daemon ended with status {status}")
    for pid, sandbox in owners(d).items():
        if sandbox != NOWHERE:  # what failed must not stay
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if failures:
        with open(os.path.join(home, "log"), errors="replace") as f:
            print("".join(f.readlines()[-20:]))
    shutil.rmtree(home, ignore_errors=True)
    return 1 if failures else 0
