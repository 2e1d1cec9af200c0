"""Clients that invoke an agent and note when what arrives. One thread; many connections by epoll."""
import select
import socket
import time


class Invoker:
    """A connection that invokes the same agent over and over. After run_all(): .id, .sent (CLOCK_REALTIME), and seconds
    from there until .first (byte of the answer) and .end."""

    def __init__(self, port, key, agent, prompt):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=300)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.prompt = prompt.encode()
        self.text = (f"POST /agents/{agent}/invoke HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n"
                     f"Content-Length: {len(self.prompt)}\r\n\r\n").encode() + self.prompt

    def send(self):
        self.data, self.id, self.body, self.first, self.end = b"", None, b"", None, None
        self.sent, self.begun = time.time(), time.perf_counter()
        self.s.sendall(self.text)

    def receive(self):
        """Once what has come; True at the end."""
        part = self.s.recv(65536)
        now = time.perf_counter() - self.begun
        if not part:
            raise EOFError(self.data)
        self.data += part
        if not self.id and not self.take_head():
            return False
        if self.first is None and self.data:
            self.first = now
        if not self.take_chunks():
            return False
        self.end = now
        return True

    def take_head(self):
        at = self.data.find(b"\r\n\r\n")
        if at < 0:
            return False
        head, self.data = self.data[:at].decode(), self.data[at + 4:]
        if not head.startswith("HTTP/1.1 200"):
            raise ValueError(head + self.data.decode(errors="replace"))
        self.id = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("mayfly-invocation:"))
        return True

    def take_chunks(self):
        while (at := self.data.find(b"\r\n")) >= 0:
            n = int(self.data[:at], 16)
            if n == 0:
                return self.data.endswith(b"\r\n\r\n")  # with the trailer
            if len(self.data) < at + 2 + n + 2:
                return False
            self.body += self.data[at + 2:at + 2 + n]
            self.data = self.data[at + 2 + n + 2:]
        return False


def run_all(invokers):
    """All of them at once, to their ends."""
    poll, by_fd = select.epoll(), {v.s.fileno(): v for v in invokers}
    for fd, v in by_fd.items():
        poll.register(fd, select.EPOLLIN)
        v.send()
    while by_fd:
        for fd, _ in poll.poll():
            if by_fd[fd].receive():
                poll.unregister(fd)
                del by_fd[fd]
    poll.close()
