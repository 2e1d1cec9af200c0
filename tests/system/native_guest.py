"""What tests of networks with native agents share (serve_native.c with MAYFLY_NATIVE_CHANNELS): the test plays a
sandbox's guest towards its real worker, as egress_worker.py does, and servers on this host's loopback. Needs root."""
import contextlib
import ctypes
import errno
import os
import socket
import sys
import threading

import egress_worker
import served
from egress_worker import DENIED, OK, read_all, read_exactly
from served import ask

PIDFD_GETFD, CHANNEL_FD = 438, 8  # serve_native.c has the second one
HTTP = 80
libc = ctypes.CDLL(None, use_errno=True)


class Server:
    """Says hello, echoes until the end, and says goodbye."""

    def __init__(self, host="127.0.0.1"):
        self.listener = socket.create_server((host, 0), backlog=256)
        self.port, self.taken = self.listener.getsockname()[1], 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            self.taken += 1
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    @staticmethod
    def serve(connection):
        with contextlib.suppress(OSError), connection:
            connection.sendall(b"hello\n")
            while data := connection.recv(1 << 16):
                connection.sendall(data)
            connection.sendall(b"bye\n")


SERVER = Server()


class Guest(egress_worker.Worker):
    """The guest's side of a sandbox's network."""

    def __init__(self, d, sandbox):  # pylint: disable=super-init-not-called
        pidfd = os.pidfd_open(d.pid_of(sandbox))
        fd = libc.syscall(PIDFD_GETFD, pidfd, CHANNEL_FD, 0)
        assert fd >= 0, os.strerror(ctypes.get_errno())
        os.close(pidfd)
        self.channel, self.id = socket.socket(fileno=fd), sandbox

    def end(self):
        self.channel.close()

    def reach(self, to, port=None, dialled=None):
        """A stream to a port of another sandbox, and the answer."""
        port = port or SERVER.port
        return self.open(self.address(f"{port}-{to}.mayfly.internal"), dialled or port)

    def greeted(self, to, **more):
        s, answer = self.reach(to, **more)
        assert answer == (OK, 0, ""), answer
        assert read_exactly(s, 6) == b"hello\n"
        return s

    def page(self, to, port=None):
        """What a browser is shown."""
        s, answer = self.reach(to, port, HTTP)
        assert answer == (OK, 0, ""), answer
        s.sendall(b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % to.encode())
        return read_all(s).decode()

    def reason(self, to, **more):
        """Why a connection was denied, by an answer to HTTP and by one to the agent."""
        page = self.page(to, **more)
        assert page.startswith("HTTP/1.1 403 "), page
        s, answer = self.reach(to, **more)
        s.close()
        assert answer.verdict == DENIED and answer.error == errno.ECONNREFUSED, answer
        return answer.reason + page


def talk(s, data=b"x"):
    """A connection that works."""
    s.sendall(data)
    assert read_exactly(s, len(data)) == data


def is_over(s):
    s.settimeout(egress_worker.LIMIT_S)
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True


def records(d, key, of, /, **members):
    """What its network did."""
    answer = ask(d.port, "GET", f"/sandboxes/{of}/activity?limit=1000&kind=flow,request,approval,lost", key)[1]
    return [r for r in answer["activity"] if all(r.get(k) == v for k, v in members.items())]


def prepare(label):
    """For the daemons to come. Ends the program where it cannot run."""
    if os.geteuid():
        print(f"skip - {label}: needs root")
        sys.exit(0)
    os.environ["MAYFLY_NATIVE_CHANNELS"] = "1"
    os.environ["MAYFLY_LIBEXEC"] = os.path.realpath(served.BUILD)
