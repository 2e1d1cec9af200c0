"""A host that answers a guest's flows (docs/egress-protocol.md) by the port that a program dials. What serves a
stream gets a connected socket, wherever it is from: a vsock connection, or the channel of mayfly-vmm."""
import errno
import socket
import struct
import threading
import time

PORT = 1025  # EGRESS_PORT
TCP, UDP = 1, 2
OK, FAILED, DENIED, WAITING = range(4)
REFUSALS = {81: errno.ECONNREFUSED, 82: errno.EHOSTUNREACH, 84: errno.ETIMEDOUT, 85: errno.ENETUNREACH}
HELD_S = 3


def read(s, n):
    data = b""
    while len(data) < n:
        piece = s.recv(n - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def answer(verdict, err=0, reason=b""):
    return struct.pack("<BBHB3x", 1, verdict, err, len(reason)) + reason


def endpoint(data):
    return socket.inet_ntoa(data[:4]), struct.unpack("<H", data[4:6])[0]


class Host:
    def __init__(self):
        self.asked = []  # (destination, source) of each TCP flow
        self.programs = []  # (pid, name) of each
        self.udp_streams = 0
        self.datagrams_to = set()
        self.streams = []
        self.release = threading.Event()  # lets port 87 go on

    def serve(self, s):
        threading.Thread(target=self.run, args=(s,), daemon=True).start()

    def run(self, s):
        self.streams.append(s)
        try:
            self.stream(s)
        except (EOFError, OSError):
            pass
        s.close()
        self.streams.remove(s)

    def stream(self, s):
        version, kind, name, zero = read(s, 4)
        assert version == 1 and zero == 0
        rest = read(s, 16 + name)
        if kind == UDP:
            self.udp_streams += 1
            self.datagrams(s)
            return
        to, source = endpoint(rest), endpoint(rest[6:])
        self.programs.append((struct.unpack("<I", rest[12:16])[0], rest[16:].decode()))
        self.asked.append((to, source))
        self.flow(s, to, source, sum(1 for t, f in self.asked if f == source and t == to))

    def flow(self, s, to, source, times):
        port = to[1]
        if port in REFUSALS:
            s.sendall(answer(FAILED, REFUSALS[port]))
        elif port == 86:
            s.sendall(answer(DENIED, errno.EACCES, b"by the rule x"))
        elif port == 87:
            s.sendall(answer(WAITING))
            if not self.release.wait(60):
                return
            self.greet(s, to, source)
        elif port == 83:
            s.sendall(answer(WAITING))
            time.sleep(HELD_S)
            self.greet(s, to, source)
        elif port == 88 and times < 3:
            return  # a worker that ends
        elif port == 90:
            s.sendall(answer(OK))
            n = 0
            while data := s.recv(1 << 16):
                n += len(data)
            s.sendall(b"%d" % n)
            s.shutdown(socket.SHUT_WR)
        elif port == 91:
            s.sendall(answer(OK))
            for _ in range(8):
                s.sendall(b"x" * (1 << 20))
            s.shutdown(socket.SHUT_WR)
            s.recv(1)
        elif port == 92:
            s.sendall(answer(OK))
            read(s, 1)  # and then the connection is reset
        elif port == 7:
            s.sendall(answer(OK))
            while data := s.recv(1 << 16):
                s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        else:
            self.greet(s, to, source)

    @staticmethod
    def greet(s, to, source):
        """What a server says first comes right behind the answer. Ends when the program does."""
        s.sendall(answer(OK) + f"{to[0]}:{to[1]} from {source[0]}:{source[1]}\n".encode())
        s.shutdown(socket.SHUT_WR)
        while s.recv(1 << 16):
            pass

    def datagrams(self, s):
        """Echoes each, but what is sent to port 9."""
        s.sendall(answer(OK))
        while True:
            head = read(s, 16)
            length, zero = struct.unpack("<HH", head[:4])
            assert zero == 0
            data = read(s, length)
            self.datagrams_to.add(endpoint(head[10:]))
            if endpoint(head[10:])[1] != 9:
                s.sendall(head + data)

    def cut(self):
        """All streams end, as those of a restored guest do."""
        for s in list(self.streams):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Listener(Host):
    """On the vsock port itself, where the kernel leads connections to CID 2 back to this machine."""

    def __init__(self):
        super().__init__()
        self.listener = None

    def open(self):
        self.listener = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
        self.listener.bind((socket.VMADDR_CID_ANY, PORT))
        self.listener.listen(1024)
        self.listener.settimeout(0.2)
        self.thread = threading.Thread(target=self.accept, args=(self.listener,), daemon=True)
        self.thread.start()

    def accept(self, listener):
        while listener.fileno() >= 0:
            try:
                s = listener.accept()[0]
                s.settimeout(None)
                self.serve(s)
            except OSError:
                pass  # nobody came, or it is closed

    def close(self):
        """From now on connects are refused, as in a sandbox without a network."""
        self.listener.close()
        self.thread.join()
