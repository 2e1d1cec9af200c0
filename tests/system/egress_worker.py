"""The worker of a sandbox's network, in its jail, without a microVM, for tests: the test plays mayfly-vmm (it sends
streams over the channel) and the daemon (it sends policies and reads records). What the worker dials is a network of
the test's own (outside.py). `tests` runs the functions of a program."""
import array
import collections
import contextlib
import json
import os
import random
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

import outside
from outside import RESOLVER
from served import chosen

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MAYFLY_BUILD", os.path.join(TOP, os.environ.get("BUILD", "build")))
JAILED = os.environ.get("TEST_JAIL", "network")
OK, FAILED, DENIED = 0, 1, 2
TCP, UDP = 1, 2
Answer = collections.namedtuple("Answer", "verdict error reason")
LIMIT_S = 20


def wait_for(fn, seconds=LIMIT_S):
    end = time.monotonic() + seconds
    while not (result := fn()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)
    return result


def endpoint(address, port):
    return socket.inet_aton(address) + struct.pack("<H", port)


def header(kind, address="0.0.0.0", port=0, name=b"test"):
    return struct.pack("<BBBB", 1, kind, len(name), 0) + endpoint(address, port) + endpoint("10.77.0.2", 40000) + \
        struct.pack("<I", 7) + name


def read_exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError(f"{len(data)} of {n} bytes")
        data += more
    return data


def read_all(s):
    data = b""
    while more := s.recv(1 << 20):
        data += more
    return data


class Launcher:
    """mayfly-launcher, as jail/request.h has it: the worker is in the same jail as under the daemon."""

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.set_inheritable(theirs.fileno(), True)
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" {JAILED} 3<&{theirs.fileno()}', f"{BUILD}/mayfly-launcher"],
            pass_fds=[theirs.fileno()])
        theirs.close()
        _, err, step, *_ = self.reply()
        assert err == 0, f"no jail: step {step}, {os.strerror(-err)}"

    def reply(self):
        data = self.socket.recv(64)
        assert data, "the launcher has ended"
        return struct.unpack("IiIIi", data)

    def start(self, path, fds, log, env):
        strings = b"".join(s.encode() + b"\0" for s in [os.path.basename(path), *env])
        with open(os.open(path, os.O_PATH), "rb", buffering=0) as program:
            sent = array.array("i", [*fds, program.fileno(), log])
            self.socket.sendmsg([struct.pack("IIII", len(fds), 0, 1, len(env)) + strings],
                                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
        while (reply := self.reply())[0] != 3:
            pass
        _, err, _, _, pid = reply
        assert err == 0, os.strerror(-err)
        return pid

    def close(self):
        self.socket.close()
        self.process.wait()


class Worker:
    def __init__(self, policy=None, idle_ms=30000, files=(), env=()):
        self.directory = tempfile.mkdtemp(prefix="test-egress.")
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(4)
        reaches = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reaches.bind(self.path + ".reach")
        reaches.listen(4)
        self.log = open(os.path.join(self.directory, "log"), "w+b")
        self.pid = launcher.start(f"{BUILD}/mayfly-egress", [theirs.fileno(), listener.fileno(), reaches.fileno(), *files], self.log.fileno(),
                                  [f"MAYFLY_EGRESS_IDLE_MS={idle_ms}", *env])
        theirs.close()
        listener.close()
        reaches.close()
        self.generation, self.said, self.daemon, self.status = 0, [], None, None
        self.connect()
        if policy is not None:
            self.policy(**policy)

    @property
    def path(self):
        return os.path.join(self.directory, "sock")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Kills it; it must not have ended before."""
        if self.status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if not ended:
                os.kill(self.pid, 9)
                _, status = os.waitpid(self.pid, 0)
            self.status = status
            self.log.seek(0)
            assert self.status == 9, f"the worker ended: {self.status}: {self.log.read()}"
        self.daemon.close()
        self.channel.close()
        self.log.close()
        shutil.rmtree(self.directory)

    # --- the daemon ---

    def connect(self):
        if self.daemon:
            self.daemon.close()
        self.daemon = socket.socket(socket.AF_UNIX)
        self.daemon.connect(self.path)
        self.rest = b""

    def policy(self, **members):
        """Sends a policy and waits until it is applied."""
        self.generation = members.pop("generation", self.generation + 1)
        self.tell(policy_of(self.generation, **members))
        message = self.hear(lambda m: "applied" in m or "error" in m)
        assert message == {"applied": self.generation}, message

    def reach(self, message):
        """Tells the dialler what the daemon tells it with such a policy."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(self.path + ".reach")
            s.send(message)

    def tell(self, value):
        if isinstance(value, dict) and isinstance(value.get("policy"), dict):
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, struct.error, KeyError):  # a bad one
                self.reach(reach_of(value["policy"]))
        self.daemon.sendall((value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n")

    def next(self):
        while b"\n" not in self.rest:
            self.daemon.settimeout(LIMIT_S)
            data = self.daemon.recv(65536)
            if not data:
                raise EOFError("the worker closed its connection")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def hear(self, wanted):
        """The first message that is wanted, said before or to come; others stay."""
        for i, m in enumerate(self.said):
            if wanted(m):
                return self.said.pop(i)
        while True:
            m = self.next()
            if wanted(m):
                return m
            self.said.append(m)

    def flow(self, **members):
        """The record of a flow."""
        return self.hear(lambda m: "flow" in m and all(m["flow"].get(k) == v for k, v in members.items()))["flow"]

    # --- the guest ---

    def stream(self):
        ours, theirs = socket.socketpair()
        socket.send_fds(self.channel, [b"\0"], [theirs.fileno()])
        theirs.close()
        ours.settimeout(LIMIT_S)
        return ours

    def answer(self, s):
        head = read_exactly(s, 8)
        version, verdict, error, length, *zero = struct.unpack("<BBHBBH", head)
        assert version == 1 and not any(zero), head
        return Answer(verdict, error, read_exactly(s, length).decode())

    def open(self, address, port):
        """A stream and the answer to it."""
        s = self.stream()
        s.sendall(header(TCP, address, port))
        return s, self.answer(s)

    def connected(self, address, port):
        s, a = self.open(address, port)
        assert a == (OK, 0, ""), a
        return s

    def refused(self, address, port):
        s, a = self.open(address, port)
        s.close()
        return a

    def datagrams(self):
        s = self.stream()
        s.sendall(header(UDP))
        assert self.answer(s).verdict == OK
        return s

    def ask(self, name, kind=1, tcp=False, stream=None):
        """Asks by UDP or TCP; (rcode, [addresses or names])."""
        with contextlib.ExitStack() as stack:
            message = dns_question(name, kind)
            if tcp:
                s = stack.enter_context(self.connected("8.8.8.8", 53))
                s.sendall(struct.pack(">H", len(message)) + message)
                answer = read_exactly(s, struct.unpack(">H", read_exactly(s, 2))[0])
            else:
                s = stream or stack.enter_context(self.datagrams())
                s.sendall(datagram("8.8.8.8", 53, message))
                (address, port), answer = read_datagram(s)
                assert (address, port) == ("8.8.8.8", 53)
        assert answer[:2] == message[:2], "another id"
        return dns_answer(answer)

    def address(self, name):
        rcode, found = self.ask(name)
        assert rcode == 0 and len(found) == 1, (rcode, found)
        return found[0]


def address_number(text):
    return int.from_bytes(socket.inet_aton(text), "big")


def reach_of(policy):
    """proto/egress_reach.h, as policy/network_reach makes it."""
    nets, ends, only = [], [], 0
    for net in policy.get("private", []):
        base, bits = net.split("/")
        nets.append((address_number(base), (0xffffffff << (32 - int(bits))) & 0xffffffff))
    for host in policy.get("hosts", []):
        ends.append((address_number(host["address"]), host.get("port", 0), 0))
    if not policy.get("dnsGiven"):
        for server in policy.get("dns", []):
            address, _, port = server.partition(":")
            ends.append((address_number(address), int(port or 53), 0))
    proxy = next(iter(policy.get("proxies", [])), {})
    if proxy.get("trusted"):
        only = 1
        try:
            ends.append((address_number(proxy["host"]), proxy["port"], 0))
        except OSError:
            ends.append((0, proxy["port"], 1))
    data = struct.pack("<IIII", 0x4d524331, only, len(nets), len(ends))
    data += b"".join(struct.pack("<II", *n) for n in nets).ljust(64 * 8, b"\0")
    return data + b"".join(struct.pack("<IHH", *e) for e in ends).ljust(268 * 8, b"\0")


def policy_of(generation, rules=(), default="allow", names=None, **members):
    """The daemon's message for one layer of rules, which may have others above it: `layers`."""
    layers = [*members.pop("layers", []), {"rules": list(rules), "default": default}]
    policy = {"version": 1, "generation": generation, "layers": layers, "dns": [RESOLVER], **members}
    return {"policy": policy, **({"names": names} if names else {})}


def datagram(address, port, data, source=5000):
    return struct.pack("<HH", len(data), 0) + endpoint("10.77.0.2", source) + endpoint(address, port) + data


def read_datagram(s):
    head = read_exactly(s, 16)
    length, zero = struct.unpack("<HH", head[:4])
    assert zero == 0
    return (socket.inet_ntoa(head[10:14]), struct.unpack("<H", head[14:])[0]), read_exactly(s, length)


def dns_question(name, kind=1, flags=0x100, extra=b""):
    return struct.pack(">HHHHHH", random.randrange(65536), flags, 1, 0, 0, 1 if extra else 0) + \
        outside.name_of(name) + struct.pack(">HH", kind, 1) + extra


def dns_answer(message):
    flags, questions, count = struct.unpack(">HHH", message[2:8])
    at, found = 12, []
    if questions:
        at += len(outside.question_of(message)[0])
    for _ in range(count):
        _, kind, _, _, length = struct.unpack(">HHHIH", message[at:at + 12])
        data = message[at + 12:at + 12 + length]
        found.append(socket.inet_ntoa(data) if kind == 1 else outside.question_of(bytes(12) + data + bytes(4))[1])
        at += 12 + length
    return flags & 15, found


NOTHING = {"default": "deny"}
ALL = {}
REST = {"id": "rest", "action": "deny", "net": "0.0.0.0/0"}


def only(*hosts, **members):
    return {"rules": [{"id": f"host {h}", "action": "allow", "host": h} for h in hosts] + [REST], **members}


def private_bytes(pid):
    """What no other worker shares: not the pages of the program's file."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(l.split()[1]) << 10 for l in f if l.startswith("Anonymous:"))


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def hello(name, extension=b""):
    """A client's first message for a name, with one more extension."""
    context = ssl.create_default_context()
    context.check_hostname = False
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    message = bytearray(out.read()[5:])
    at = 4 + 2 + 32
    for width in (1, 2, 1):  # session id, cipher suites, compressions
        at += width + int.from_bytes(message[at:at + width], "big")
    message += extension
    message[at:at + 2] = struct.pack(">H", len(message) - at - 2)
    message[1:4] = struct.pack(">I", len(message) - 4)[1:]
    return records(bytes(message), len(message))


def records(message, piece):
    pieces = [message[i:i + piece] for i in range(0, len(message), piece)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(p)) + p for p in pieces)


def run(test, label):
    try:
        test()
        print(f"ok - {label}: {test.__name__[5:]}", flush=True)
        return 0
    except Exception as e:  # pylint: disable=broad-except
        at = e.__traceback__
        while at.tb_next:
            at = at.tb_next
        lines = []
        tb = e.__traceback__
        while tb:
            lines.append(str(tb.tb_lineno))
            tb = tb.tb_next
        print(f"not ok - {label}: {test.__name__[5:]}: lines {' '.join(lines)}: {e!r}", flush=True)
        return 1


def tests(functions, label):
    """Runs the functions named test_*: those that the command line names, else all that there is time for
    (served.chosen). Ends the program."""
    global launcher  # pylint: disable=global-statement
    try:
        end_outside = outside.begin()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skip - {label}: this host has no network namespaces with veth pairs for the test: {error}")
        sys.exit(77)
    launcher = Launcher()
    failed = sum(run(t, label) for t in sorted(chosen(functions), key=lambda t: t.__name__))
    launcher.close()
    end_outside()
    sys.exit(1 if failed else 0)
