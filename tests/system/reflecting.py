"""A TLS server for tests that says back what it is sent, in many ways, and is strict: requests that two readers could
understand differently are `wrong`."""
import base64
import collections
import gzip
import re
import socket
import ssl
import threading

Request = collections.namedtuple("Request", "target host authorization raw")
LINE = re.compile(rb"[A-Z]+ /[!-~]* HTTP/1\.1")
FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t -~\x80-\xff]*")
HEAD_MAX = 1 << 20


class Server:
    """`requests`: those that were good. `wrong`: (why, what came). `plain`: what came without TLS."""

    def __init__(self, files, secret):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*files)
        self.context.set_alpn_protocols(["http/1.1"])
        self.secret, self.requests, self.wrong, self.plain = secret.encode(), [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            c, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=[c], daemon=True).start()

    def serve(self, c):
        c.settimeout(60)
        try:
            with c:
                first = c.recv(1, socket.MSG_PEEK)
                if first and first != b"\x16":
                    self.plain.append(c.recv(65536))
                    return
                with self.context.wrap_socket(c, server_side=True) as s:
                    rest = b""
                    while (rest := self.one(s, rest)) is not None:
                        pass
        except (OSError, EOFError):
            pass

    def one(self, s, data):
        """Reads a request and answers; what came behind it, or None at the end."""
        while b"\r\n\r\n" not in data:
            piece = s.recv(65536)
            if not piece or len(data) > HEAD_MAX:
                if data:
                    self.wrong.append(("it ends in the middle of a head", data[:500]))
                return None
            data += piece
        head, data = data.split(b"\r\n\r\n", 1)
        lines = head.split(b"\r\n")
        fields = collections.defaultdict(list)
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            fields[name.lower().decode("latin-1")].append(value.strip())
        self.wrong += [(why, head[:500]) for why in faults(lines, fields)]
        data = self.skip_body(s, data, fields)
        target = lines[0].split(b" ")[1].decode("latin-1") if b" " in lines[0] else ""
        self.requests.append(Request(target, b" ".join(fields["host"]).decode("latin-1"),
                                     b" ".join(fields["authorization"]).decode("latin-1"), head))
        s.sendall(self.answer(target, head))
        return data

    @staticmethod
    def skip_body(s, data, fields):
        def more():
            piece = s.recv(65536)
            if not piece:
                raise EOFError
            return piece
        if fields["transfer-encoding"]:
            size = None
            while size != 0:
                while b"\r\n" not in data:
                    data += more()
                line, data = data.split(b"\r\n", 1)
                size = int(line.split(b";")[0], 16)
                while len(data) < size + 2:
                    data += more()
                data = data[size + 2:]
            return data
        length = int(fields["content-length"][0]) if fields["content-length"] else 0
        while len(data) < length:
            data += more()
        return data[length:]

    def answer(self, target, head):
        """The head of the request, with the secret in it, as the target says."""
        path, secret = target.split("?")[0], self.secret
        ok = b"HTTP/1.1 200 OK\r\n"
        if path in ("/chunks", "/trickle"):
            step = 1 if path == "/chunks" else 7
            pieces = [head[i:i + step] for i in range(0, len(head), step)]
            return ok + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
        if path == "/header":
            return ok + b"X-A: %s\r\nSet-Cookie: k=%s\r\nLocation: /?%s\r\nContent-Length: 0\r\n\r\n" % (secret, secret, secret)
        if path == "/error":
            return b"HTTP/1.1 500 Failed\r\nContent-Length: %d\r\n\r\n%s" % (len(head), head)
        if path == "/reason":
            return b"HTTP/1.1 400 %s\r\nContent-Length: 0\r\n\r\n" % secret
        if path == "/gzip":
            data = gzip.compress(head)
            return ok + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)
        if path == "/early":
            return b"HTTP/1.1 103 Early Hints\r\nLink: <%s>\r\n\r\n" % secret + ok + b"Content-Length: 0\r\n\r\n"
        data = head + b"\r\n" + base64.b64encode(b"nothing that is secret")
        return ok + b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def faults(lines, fields):
    """What a strict reader would not take."""
    if not LINE.fullmatch(lines[0]):
        yield "the first line"
    if any(not FIELD.fullmatch(line) for line in lines[1:]):
        yield "a field"
    if len(fields["host"]) != 1:
        yield "not one host"
    if fields["transfer-encoding"] and (fields["content-length"] or fields["transfer-encoding"] != [b"chunked"]):
        yield "its coding"
    if len(fields["content-length"]) > 1 or any(not v.isdigit() for v in fields["content-length"]):
        yield "its length"
    if fields["upgrade"] not in ([], [b"websocket"]) or fields["http2-settings"]:
        yield "an upgrade"
    if len(fields["authorization"]) > 1:
        yield "two authorizations"


def check(intercepted, other, secret):
    """Every request to the first is whole, for its host and with its secret; nothing else has it."""
    assert not intercepted.wrong, intercepted.wrong[:10]
    for r in intercepted.requests:
        assert r.host == "api.test" and "smuggled" not in r.target and secret in r.authorization, r
    for raw in (*intercepted.plain, *other.plain, *(r.raw for r in other.requests)):
        assert secret.encode() not in raw, raw


def check2(server, name):
    """The same of one that speaks HTTP/2 (tls_servers.py)."""
    for _, method, path, headers, _ in server.asked.queue:
        said = dict(headers)
        assert said[":authority"] == name and said.get("host", name) == name and "bad" not in path, said
        assert method in ("GET", "POST") and "transfer-encoding" not in said and "connection" not in said, said
