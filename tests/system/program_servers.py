"""Servers for the programs of agents, on this host's loopback: git over HTTPS and ssh, a provider of models whose
answers stream, PostgreSQL. They speak the protocols as far as the real clients go."""
import asyncio
import http.server
import json
import os
import queue
import socket
import ssl
import struct
import subprocess
import threading
import time
import warnings

import tls_servers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of old ciphers in a library of it
    import asyncssh

GIT_BACKEND = "/usr/lib/git-core/git-http-backend"
PATIENCE_S = 300
INT4 = 23  # type of PostgreSQL


# --- git ---

def make_repository(directory):
    """A bare one with two commits, which programs may push to; its path."""
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main",
                        *arguments], check=True, capture_output=True)
    tree, bare = os.path.join(directory, "tree"), os.path.join(directory, "project.git")
    git("init", tree)
    for n in range(2):
        with open(os.path.join(tree, "file"), "wb") as f:
            f.write(os.urandom(1 << 20))
        git("-C", tree, "add", "file")
        git("-C", tree, "commit", "-m", f"commit {n}")
    git("clone", "--bare", tree, bare)
    git("-C", bare, "config", "http.receivepack", "true")
    return bare


def commits(repository):
    """Their subjects, the newest first."""
    out = subprocess.run(["git", "-C", repository, "log", "--format=%s"], check=True, capture_output=True, text=True).stdout
    return out.split("\n")[:-1]


class GitHandler(http.server.BaseHTTPRequestHandler):
    """git's own CGI program. Pushes need a login."""
    protocol_version = "HTTP/1.1"
    root, login = "", ""

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self.body()
        if "receive-pack" in self.path and self.headers.get("Authorization") != self.login:
            self.answer("401 Unauthorized", {"WWW-Authenticate": 'Basic realm="git"'}, b"")
            return
        out = subprocess.run([GIT_BACKEND], input=body, check=True, capture_output=True, env={
            "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command, "PATH_INFO": path,
            "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "test",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "PATH": os.environ["PATH"],
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}).stdout
        head, _, data = out.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.answer(fields.pop("Status", "200 OK"), fields, data)

    do_POST = do_GET

    def answer(self, status, fields, data):
        self.send_response(int(status[:3]))
        for name, value in {**fields, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class Git:
    def __init__(self, directory, files, login):
        """login: the value of Authorization that pushes need. files: of the certificate."""
        self.repository = make_repository(directory)
        handler = type("Handler", (GitHandler,), {"root": directory, "login": login})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()


# --- ssh ---

class Ssh:
    """Takes one key of a client. Runs git's programs on repositories of the directory; "ticks" is a line now and then,
    until the client is gone."""

    def __init__(self, directory, client_key):
        """client_key: a line of authorized_keys."""
        self.directory, self.port = directory, 0
        self.ended = queue.Queue()  # when connections did
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.keys = asyncssh.import_authorized_keys(client_key)
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        assert ready.wait(PATIENCE_S)

    def known_hosts(self, name):
        return f"{name} {self.host_key.export_public_key().decode()}"

    async def serve(self, ready):
        ended = self.ended

        class Server(asyncssh.SSHServer):
            def connection_lost(self, exc):
                ended.put(time.monotonic())

        listener = await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[self.host_key], authorized_client_keys=self.keys, server_factory=Server,
            process_factory=self.run, encoding=None, login_timeout=PATIENCE_S)
        self.port = listener.sockets[0].getsockname()[1]
        ready.set()
        await asyncio.Event().wait()

    async def run(self, process):
        if process.command == "ticks":
            while not process.is_closing():
                process.stdout.write(b"tick\n")
                await asyncio.sleep(0.1)
            return
        program, _, path = process.command.partition(" ")
        if program not in ("git-upload-pack", "git-receive-pack"):
            process.stderr.write(b"no such program\n")
            process.exit(127)
            return
        local = await asyncio.create_subprocess_exec(
            program, os.path.join(self.directory, os.path.basename(path.strip("'"))), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        await process.redirect(stdin=local.stdin, stdout=local.stdout)
        process.exit(await local.wait())


# --- a provider of models ---

class Model(tls_servers.Server):
    """Answers word by word, the next one when the program has said that it has the last: an answer that is held back on
    the way never ends. `authorizations`: those of its requests."""
    words = ("One ", "word ", "after ", "the ", "other.")

    def __init__(self, files, **more):
        self.authorizations, self.seen = [], queue.Queue()
        super().__init__(files, protocols=("http/1.1",), **more)

    def answer1(self, s, lines, path, headers):
        self.authorizations.append(headers.get("authorization"))
        if path == "/v1/chat/completions":
            return self.stream(s)
        self.seen.put(path)
        send_json(s, {"id": path.rsplit("/", 1)[1], "object": "model", "created": 1, "owned_by": "test"})
        return True

    def stream(self, s):
        s.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for word in self.words:
            chunk(s, "data: " + json.dumps({
                "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}))
            self.seen.get(timeout=PATIENCE_S)
        chunk(s, "data: [DONE]")
        s.sendall(b"0\r\n\r\n")
        return True


def chunk(s, event):
    data = event.encode() + b"\n\n"
    s.sendall(b"%x\r\n%s\r\n" % (len(data), data))


def send_json(s, value):
    data = json.dumps(value).encode()
    s.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(data), data))


# --- PostgreSQL ---

class Postgres:
    """One table of numbers. TLS as its clients begin it, a password, queries with and without parameters: an INSERT
    puts its first parameter into the table, a SELECT gives all. Protocol 3.0."""
    SSL_REQUEST = 80877103

    def __init__(self, files, password):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*files)
        self.password, self.numbers, self.plain = password, [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            c, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=[c], daemon=True).start()

    def serve(self, c):
        try:
            lines = tls_servers.Lines(c)
            length, code = struct.unpack(">II", lines.exactly(8))
            if code != self.SSL_REQUEST:
                self.plain += 1
                return
            c.sendall(b"S")
            with self.context.wrap_socket(c, server_side=True) as s:
                Session(s, self).run()
        except (OSError, EOFError):
            pass


def message(kind, data=b""):
    return kind + struct.pack(">I", len(data) + 4) + data


class Session:
    def __init__(self, s, server):
        self.s, self.server, self.lines, self.query, self.values = s, server, tls_servers.Lines(s), b"", []

    def run(self):
        length, = struct.unpack(">I", self.lines.exactly(4))
        self.lines.exactly(length - 4)
        self.s.sendall(message(b"R", struct.pack(">I", 3)))
        kind, data = self.next()
        if kind != b"p" or data.rstrip(b"\0").decode() != self.server.password:
            self.fail("28P01", "password authentication failed")
            return
        status = b"".join(message(b"S", f"{k}\0{v}\0".encode()) for k, v in (
            ("server_version", "15.0"), ("client_encoding", "UTF8"), ("standard_conforming_strings", "on")))
        self.s.sendall(message(b"R", struct.pack(">I", 0)) + status + message(b"K", bytes(8)) + message(b"Z", b"I"))
        while (one := self.next())[0] != b"X":
            self.handle(*one)

    def next(self):
        kind, length = struct.unpack(">cI", self.lines.exactly(5))
        return kind, self.lines.exactly(length - 4)

    def fail(self, code, text):
        self.s.sendall(message(b"E", f"SERROR\0VERROR\0C{code}\0M{text}\0\0".encode()))

    def handle(self, kind, data):
        verbs = {b"Q": self.simple, b"P": self.parse, b"B": self.bind, b"D": self.describe, b"E": self.execute,
                 b"S": lambda _: self.s.sendall(message(b"Z", b"I")), b"H": lambda _: None,
                 b"C": lambda _: self.s.sendall(message(b"3"))}
        verbs[kind](data)

    def simple(self, data):
        self.query = data.rstrip(b"\0")
        if self.query.upper().startswith(b"SELECT"):
            self.describe(b"P")
        self.execute(b"")
        self.s.sendall(message(b"Z", b"I"))

    def parse(self, data):
        self.query = data.split(b"\0")[1]
        self.s.sendall(message(b"1"))

    def bind(self, data):
        """The parameters, as text or as binary integers."""
        rest = data.split(b"\0", 1)[1]
        rest = rest.split(b"\0", 1)[1]
        count, = struct.unpack(">H", rest[:2])
        formats, rest = struct.unpack(f">{count}H", rest[2:2 + 2 * count]), rest[2 + 2 * count:]
        count, = struct.unpack(">H", rest[:2])
        rest, self.values = rest[2:], []
        for n in range(count):
            length, = struct.unpack(">I", rest[:4])
            value, rest = rest[4:4 + length], rest[4 + length:]
            binary = formats[n if len(formats) > 1 else 0] if formats else 0
            self.values.append(int.from_bytes(value, "big") if binary else int(value))
        self.s.sendall(message(b"2"))

    def describe(self, _):
        if self.query.upper().startswith(b"SELECT"):
            field = b"n\0" + struct.pack(">IHIhih", 0, 0, INT4, 4, -1, 0)
            self.s.sendall(message(b"T", struct.pack(">H", 1) + field))
        else:
            self.s.sendall(message(b"n"))

    def execute(self, _):
        verb = self.query.split(b" ")[0].upper()
        if verb == b"INSERT":
            self.server.numbers.append(self.values[0])
            self.s.sendall(message(b"C", b"INSERT 0 1\0"))
        elif verb == b"SELECT":
            for number in self.server.numbers:
                text = str(number).encode()
                self.s.sendall(message(b"D", struct.pack(">HI", 1, len(text)) + text))
            self.s.sendall(message(b"C", b"SELECT %d\0" % len(self.server.numbers)))
        else:
            self.s.sendall(message(b"C", verb + b"\0"))
