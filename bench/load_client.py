"""Clients of bench/load that cost little themselves: requests are bytes made once, answers are
looked at as far as needed to find their end. One thread; many connections by epoll."""
import base64
import json
import select
import socket
import struct
import time


def request(path, host, *fields):
    """A GET."""
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


def run_request(sandbox, argv, environment):
    """`commands.run`, as the SDKs put it."""
    process = {"cmd": argv[0], "args": argv[1:], "envs": environment}
    message = json.dumps({"process": process, "stdin": False}).encode()
    return "\r\n".join([
        "POST /process.Process/Start HTTP/1.1", f"Host: 49983-{sandbox}.test",
        "Content-Type: application/connect+json", "Connect-Protocol-Version: 1",
        f"Content-Length: {len(message) + 5}", "", ""]).encode() + struct.pack(
            ">BI", 0, len(message)) + message


class Wire:
    """A connection that asks the same over and over."""

    def __init__(self, port, text=b""):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.text, self.data, self.need = text, b"", 0

    def send(self):
        self.s.sendall(self.text)

    def receive(self):
        """Once what has come; True at the end of the answer, which must be a 200 with a length."""
        part = self.s.recv(65536)
        if not part:
            raise EOFError(self.data)
        self.data += part
        if not self.need:
            at = self.data.find(b"\r\n\r\n")
            if at < 0:
                return False
            if not self.data.startswith(b"HTTP/1.1 200"):
                raise ValueError(self.data[:300])
            length = self.data.lower().index(b"content-length:", 0, at) + 15
            self.need = at + 4 + int(self.data[length:self.data.index(b"\r\n", length)])
        if len(self.data) < self.need:
            return False
        self.data, self.need = b"", 0
        return True

    def ask(self):
        self.send()
        while not self.receive():
            pass


def rate(wires, seconds):
    """Each connection asks again as soon as it has its answer: (answers, seconds)."""
    poll, by_fd, count = select.epoll(), {w.s.fileno(): w for w in wires}, 0
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    begin = now = time.monotonic()
    for w in wires:
        w.send()
    waiting = len(wires)
    while waiting:
        for fd, _ in poll.poll():
            if not by_fd[fd].receive():
                continue
            now = time.monotonic()
            count += 1
            if now - begin < seconds:
                by_fd[fd].send()
            else:
                waiting -= 1
    poll.close()
    return count, now - begin


class Run(Wire):
    """`commands.run`: .lines of (when it was read, its text), when the process started and ended,
    and .exit, None until it is known."""

    def begin(self):
        self.head, self.chunked, self.body, self.last = False, b"", b"", False
        self.lines, self.started, self.ended, self.exit = [], None, None, None
        self.begun = time.time()
        self.send()

    def receive(self):
        part = self.s.recv(65536)
        if not part:
            raise EOFError(self.body)
        self.chunked += part
        if not self.head and not self.take_head():
            return False
        self.take_chunks()
        self.take_messages()
        return self.last

    def take_head(self):
        at = self.chunked.find(b"\r\n\r\n")
        if at < 0:
            return False
        if not self.chunked.startswith(b"HTTP/1.1 200"):
            raise ValueError(self.chunked[:300])
        self.chunked, self.head = self.chunked[at + 4:], True
        return True

    def take_chunks(self):
        while (at := self.chunked.find(b"\r\n")) >= 0:
            end = at + 2 + int(self.chunked[:at], 16)
            if len(self.chunked) < end + 2:
                return
            self.last = end == at + 2
            self.body += self.chunked[at + 2:end]
            self.chunked = self.chunked[end + 2:]

    def take_messages(self):
        now = time.time()
        while len(self.body) >= 5:
            flags, n = struct.unpack(">BI", self.body[:5])
            if len(self.body) < 5 + n:
                break
            message, self.body = json.loads(self.body[5:5 + n] or b"{}"), self.body[5 + n:]
            self.take_event(message.get("event", {}), now)
            if flags & 2:
                self.ended = now

    def take_event(self, event, now):
        if "start" in event:
            self.started = now
        elif "data" in event:
            text = base64.b64decode(event["data"].get("stdout", "")).decode()
            self.lines += [(now, line) for line in text.splitlines()]
        elif "end" in event:
            self.exit = event["end"].get("exitCode", 0)

    def run(self):
        self.begin()
        while not self.receive():
            pass
        if self.exit != 0:
            raise ValueError(f"exit code {self.exit}")


def run_all(runs, seconds):
    """All of them at once, at most so long; how many have ended."""
    poll, by_fd, ended = select.epoll(), {r.s.fileno(): r for r in runs}, 0
    for fd, r in by_fd.items():
        poll.register(fd, select.EPOLLIN)
        r.begin()
    limit = time.monotonic() + seconds
    while ended < len(runs) and time.monotonic() < limit:
        for fd, _ in poll.poll(1):
            if by_fd[fd].receive():
                poll.unregister(fd)
                ended += 1
    poll.close()
    return ended
