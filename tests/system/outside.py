"""A small Internet for tests: a network namespace behind a veth pair that has all public addresses, with servers
that echo, count, send without end, reset, and an upstream resolver that counts what it is asked. The process that
imports this gets a network namespace of its own, too, so the machine's stays as it is."""
import ctypes
import json
import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import threading

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
HERE, THERE = "10.99.0.1", "10.99.0.2"
PUBLIC, OTHER, RESOLVER = "93.184.216.34", "93.184.216.35", "9.9.9.9"
LIAR = "9.9.9.10"  # a resolver that says OTHER for each name
NOBODY, UNREACHABLE = "93.184.217.1", "93.184.218.1"  # silence, and an ICMP error
ECHO, COUNT, SOURCE, RESET, SLOW, CLOSED, TAKEN, ASKED = 7, 9, 19, 1111, 1112, 1113, 98, 99
SOCKS, SOCKS_LOGIN, LOGIN = 1080, 1081, ("user", "pass:word")
SOCKS_TLS, SOCKS_CUT = 1082, 1083  # what is asked of these speaks TLS, with the certificate of TLS_FILES; the second never ends it
TLS_FILES = [f"/tmp/test-outside-{os.getpid()}.{kind}" for kind in ("pem", "key")]
ZONE = {"good.example": [PUBLIC], "www.good.example": [PUBLIC], "bad.example": [OTHER], "two.example": [NOBODY, PUBLIC],
        "private.example": [THERE], "loop.example": ["127.0.0.1"], "meta.example": ["169.254.169.254"],
        "mixed.example": ["127.0.0.1", PUBLIC], "own.example": [HERE], "large.example": [PUBLIC],
        "shy.example": [PUBLIC], "api.test.example": [PUBLIC]}
ALIASES = {"alias.example": "good.example"}


def unshare(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def question_of(message):
    """The question's bytes, its name and its type."""
    at, labels = 12, []
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode())
        at += 1 + message[at]
    return message[12:at + 5], ".".join(labels).lower(), struct.unpack(">H", message[at + 1:at + 3])[0]


def name_of(text):
    return b"".join(bytes([len(l)]) + l.encode() for l in text.split(".")) + b"\0"


def answer_to(message, udp, lie=False):
    """What the upstream resolver says; None: nothing."""
    raw, name, kind = question_of(message)
    if lie:
        return message[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + raw + b"\xc0\x0c" + \
            struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(OTHER)
    if name == "shy.example" and udp:
        return None
    records, owner = b"", b"\xc0\x0c"
    count = 0
    if name in ALIASES:
        target = name_of(ALIASES[name])
        records += owner + struct.pack(">HHIH", 5, 1, 60, len(target)) + target
        owner, name, count = target, ALIASES[name], 1
    for address in ZONE.get(name, []) if kind == 1 else []:
        records += owner + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(address)
        count += 1
    flags = 0x8180 | (0 if name in ZONE else 3)
    if name == "large.example" and udp:
        flags, records, count = flags | 0x200, b"", 0
    return message[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0) + raw + records


class Servers:
    """Runs in the process outside."""

    def __init__(self):
        self.asked, self.taken = [], []
        for port, serve in {ECHO: self.echo, COUNT: self.count, SOURCE: self.source, RESET: self.reset,
                            SLOW: self.slow, ASKED: self.tell, TAKEN: self.tell_taken,
                            SOCKS: self.socks, SOCKS_LOGIN: lambda c: self.socks(c, LOGIN),
                            SOCKS_TLS: self.socks_tls, SOCKS_CUT: lambda c: self.socks_tls(c, False),
                            53: self.resolve_tcp, 443: self.echo, 22: self.echo}.items():
            s = socket.create_server(("0.0.0.0", port), backlog=256)
            threading.Thread(target=self.accept, args=(s, serve), daemon=True).start()
        for address, port, serve in ((PUBLIC, ECHO, self.echo_udp), (RESOLVER, 53, self.resolve_udp),
                                     (LIAR, 53, lambda s: self.resolve_udp(s, True)),
                                     (THERE, 5353, self.resolve_udp)):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.bind((address, port))
            threading.Thread(target=serve, args=(s,), daemon=True).start()

    def accept(self, s, serve):
        while True:
            c, _ = s.accept()
            self.taken.append(c.getsockname())
            threading.Thread(target=Servers.guarded, args=(serve, c), daemon=True).start()

    @staticmethod
    def guarded(serve, c):
        try:
            with c:
                serve(c)
        except OSError:
            pass

    @staticmethod
    def echo(c):
        while data := c.recv(65536):
            c.sendall(data)

    @staticmethod
    def count(c):
        n = 0
        while data := c.recv(65536):
            n += len(data)
        c.sendall(b"%d" % n)

    @staticmethod
    def source(c):
        while True:
            c.sendall(bytes(65536))

    @staticmethod
    def reset(c):
        c.recv(1)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @staticmethod
    def slow(c):
        """Reads nothing until the client's bytes have filled everything, then counts."""
        select.select([c], [], [])
        threading.Event().wait(0.3)
        Servers.count(c)

    def tell(self, c):
        c.sendall(json.dumps(self.asked).encode())
        self.asked = []

    def tell_taken(self, c):
        c.sendall(json.dumps([t for t in self.taken if t[1] not in (TAKEN, ASKED)]).encode())
        self.taken = []

    def echo_udp(self, s):
        while True:
            data, peer = s.recvfrom(65535)
            self.taken.append(s.getsockname())
            s.sendto(data, peer)

    def socks(self, c, login=None):
        """A SOCKS5 proxy. What it was asked for is told as "socks NAME:PORT". It answers with an address of each kind."""
        def take(n):
            data = c.recv(n, socket.MSG_WAITALL)
            if len(data) < n:
                raise OSError("it ends")
            return data

        methods = take(take(2)[1])
        c.sendall(bytes([5, 2 if login else 0]) if login is None or 2 in methods else b"\5\xff")
        if login and 2 in methods:
            user = take(take(2)[1]).decode()
            good = (user, take(take(1)[0]).decode()) == login
            c.sendall(bytes([1, not good]))
            if not good:
                return
        kind = take(4)[3]
        name = take(take(1)[0]).decode() if kind == 3 else socket.inet_ntoa(take(4))
        port, = struct.unpack(">H", take(2))
        self.asked.append(f"socks {name}:{port}")
        try:
            s = socket.create_connection((ZONE.get(name, [name])[0], port), timeout=5)
        except OSError as e:
            c.sendall(bytes([5, 5 if e.errno == 111 else 1, 0, 1]) + bytes(6))
            return
        with s:
            bound = {ECHO: b"\1" + bytes(4), COUNT: b"\3\4host"}.get(port, b"\4" + bytes(16))
            c.sendall(b"\5\0\0" + bound + bytes(2))
            back = threading.Thread(target=self.copy, args=(s, c))
            back.start()
            self.copy(c, s)
            back.join()

    def socks_tls(self, c, ends=True):
        """The same over TLS, by a pair of sockets as ssl's cannot be shut down in one direction."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*TLS_FILES)
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours, theirs = socket.socketpair()
        threading.Thread(target=self.guarded, args=(self.socks, theirs), daemon=True).start()
        engine, open_ = context.wrap_bio(into, out, server_side=True), True
        shaken = closed = False
        with ours:
            while open_ or not closed:
                ready, _, _ = select.select(([c] if open_ else []) + ([ours] if shaken and not closed else []), [], [])
                if c in ready:
                    data = c.recv(65536)
                    into.write(data) if data else into.write_eof()
                    open_ = bool(data)
                try:
                    if not shaken:
                        engine.do_handshake()
                        shaken = True
                    while c in ready and open_:
                        data = engine.read(65536)
                        if not data:
                            raise ssl.SSLZeroReturnError
                        ours.sendall(data)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    open_ = False
                    ours.shutdown(socket.SHUT_WR)
                if ours in ready:
                    data = ours.recv(65536)
                    closed = not data
                    if data:
                        engine.write(data)
                    elif ends:
                        try:
                            engine.unwrap()
                        except ssl.SSLError:
                            pass
                c.sendall(out.read())

    @staticmethod
    def copy(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:  # the other direction has ended both
            pass

    def resolve_udp(self, s, lie=False):
        while True:
            data, peer = s.recvfrom(65535)
            self.asked.append(question_of(data)[1])
            answer = answer_to(data, True, lie)
            if answer:
                s.sendto(answer, peer)

    def resolve_tcp(self, c):
        data = c.recv(65535)
        self.asked.append(question_of(data[2:])[1])
        answer = answer_to(data[2:], False)
        c.sendall(struct.pack(">H", len(answer)) + answer)


def run_outside(ready, go):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    unshare(CLONE_NEWNET)
    os.write(ready, b"1")
    os.read(go, 1)
    ip("link", "set", "lo", "up")
    ip("addr", "add", THERE + "/24", "dev", "there")
    ip("link", "set", "there", "up")
    for address in (PUBLIC, OTHER, RESOLVER, LIAR, "100.100.100.200", "168.63.129.16"):
        ip("addr", "add", address + "/32", "dev", "lo")
    with open("/proc/sys/net/ipv4/ip_forward", "w") as f:
        f.write("1")
    ip("route", "add", "blackhole", NOBODY)
    ip("route", "add", "unreachable", UNREACHABLE)
    Servers()
    os.write(ready, b"2")
    os.read(go, 1)  # until the test ends
    os._exit(0)


def begin():
    """Returns a function that ends it. OSError or CalledProcessError: this host has no such namespaces."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWNET | (CLONE_NEWUSER if uid else 0))
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as f:
                f.write(text)
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready[0])
        os.close(go[1])
        try:
            run_outside(ready[1], go[0])
        finally:
            os._exit(1)
    os.close(ready[1])
    os.close(go[0])
    assert os.read(ready[0], 1) == b"1", "no network namespace"
    ip("link", "set", "lo", "up")
    ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(pid))
    ip("addr", "add", HERE + "/24", "dev", "here")
    ip("link", "set", "here", "up")
    os.write(go[1], b"1")
    assert os.read(ready[0], 1) == b"2", "the servers outside did not start"
    ip("route", "add", "default", "via", THERE)
    ip("route", "add", "throw", "93.184.219.0/24")

    def end():
        os.close(go[1])
        os.waitpid(pid, 0)
    return end


def use_resolver(directory):
    """For this process and its children, which have a mount namespace of their own."""
    path = os.path.join(directory, "resolv.conf")
    with open(path, "w") as f:
        f.write(f"nameserver {RESOLVER}\n")
    subprocess.run(["mount", "--bind", path, os.path.realpath("/etc/resolv.conf")], check=True)


def asked():
    """What the upstream resolver was asked since the last call."""
    return told(ASKED)


def taken():
    """[[address, port]] of what was connected to, and of datagrams to the echo, since the last call."""
    return told(TAKEN)


def told(port):
    with socket.create_connection((THERE, port)) as c:
        data = b""
        while more := c.recv(65536):
            data += more
    return json.loads(data)
