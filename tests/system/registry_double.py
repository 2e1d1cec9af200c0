"""A registry on loopback for tests, which can be told to lie."""
import http.server
import threading


class Registry:
    """blobs: digest -> bytes. manifests: tag or digest -> (media type, bytes). rules: (part of a path, function of the
    handler), which answers in place of the registry; a rule with a count goes after so many requests."""

    def __init__(self, image=None, name="team/app", tls=None):
        self.blobs, self.manifests, self.rules, self.seen = {}, {}, [], []
        self.token = self.login = None
        if image:
            self.add(image)
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                registry.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.name = name
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def add(self, image, tag="1"):
        self.blobs.update(image.blobs)
        root = image.root
        self.manifests[tag] = (root["mediaType"], image.blobs[root["digest"]])
        for key, data in image.blobs.items():
            if data[:1] == b"{":
                self.manifests[key] = ("", data)

    def rule(self, part, act, count=-1):
        self.rules.append([part, act, count])
        return self

    def answer(self, h):
        self.seen.append((h.path, h.headers.get("Authorization")))
        for rule in self.rules:
            if rule[0] in h.path and rule[2] != 0:
                rule[2] -= 1
                rule[1](h)
                return
        kind, _, version = h.path.removeprefix(f"/v2/{self.name}/").partition("/")
        wanted = self.token or self.login
        if wanted and h.headers.get("Authorization") != wanted:
            reply(h, 401, b"{}", {"WWW-Authenticate": self.challenge()})
        elif kind == "blobs" and version in self.blobs:
            reply(h, 200, self.blobs[version])
        elif kind == "manifests" and version in self.manifests:
            reply(h, 200, self.manifests[version][1], {"Content-Type": self.manifests[version][0]})
        else:
            reply(h, 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')

    def challenge(self):
        if self.login:
            return 'Basic realm="r"'
        return f'Bearer realm="http://{self.host}/token",service="r",scope="repository:{self.name}:pull"'

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def reply(h, status, data=b"", headers=None, length=None):
    h.send_response(status)
    for key, value in (headers or {}).items():
        h.send_header(key, value)
    h.send_header("Content-Length", str(len(data) if length is None else length))
    h.end_headers()
    try:
        h.wfile.write(data)
    except OSError:  # the client has heard enough
        pass


def cut(data):
    """Half of what it announces, and then the connection ends."""
    def act(h):
        reply(h, 200, data[:len(data) // 2], {"Connection": "close"}, len(data))
        h.close_connection = True
    return act


def endless(h):
    h.send_response(200)
    h.send_header("Transfer-Encoding", "chunked")
    h.end_headers()
    try:
        while True:
            h.wfile.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
    except OSError:
        h.close_connection = True


def redirect(to, status=307):
    return lambda h: reply(h, status, b"", {"Location": to})
