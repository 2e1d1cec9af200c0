"""Programs that speak HTTP with TLS servers through the worker of a sandbox's network (egress_worker.py,
tls_servers.py): what tests of intercepted connections share."""
import atexit
import contextlib
import datetime
import shutil
import socket
import ssl
import tempfile
import threading
from http.client import HTTPConnection

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

import h2.config
import h2.connection
import h2.events

from certificates import Authority, text
from egress_worker import only
from tls_servers import Server

NAME = "api.test"
SECRET = "sk-real-0123456789abcdef"
PLACEHOLDER = "sk-mfly-0123456789abcdef"[:len(SECRET)]
HEADERS = [{"name": "authorization", "value": "Bearer ${e2b.secrets.openai}"}]
DIRECTORY = tempfile.mkdtemp(prefix="test-egress-tls.")
atexit.register(shutil.rmtree, DIRECTORY)
BEGAN = {}  # what all tests share


def shared(name, make):
    if name not in BEGAN:
        BEGAN[name] = make()
    return BEGAN[name]


def sandbox_authority():
    return shared("sandbox", lambda: Authority(DIRECTORY, "sandbox", ["test"]))


def web_authority():
    return shared("web", lambda: Authority(DIRECTORY, "web"))


def with_large_key(bits, certificate, key):
    """A file of a good certificate, and behind it one whose key nobody has: a server may send any."""
    numbers = rsa.RSAPublicNumbers(65537, (1 << bits) - 1)
    now = datetime.datetime.now()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "large")])
    issuer = ec.generate_private_key(ec.SECP256R1())
    more = x509.CertificateBuilder(name, name, numbers.public_key(), 1, now, now + datetime.timedelta(days=9)).sign(
        issuer, hashes.SHA256())
    path = f"{certificate}.{bits}"
    with open(path, "w") as f:
        f.write(text(certificate) + more.public_bytes(serialization.Encoding.PEM).decode())
    return path, key


def server(kind="good", made=Server, **more):
    """A server whose certificate is good, expired, for another name, or of an unknown authority; or good, with a further
    one that has a key of so many bits."""
    def files():
        if kind.isdigit():
            return with_large_key(int(kind), *web_authority().issue(NAME))
        if kind == "unknown":
            return Authority(DIRECTORY, "nobody").issue(NAME)
        return web_authority().issue("other.test" if kind == "other" else NAME, "*.wild.test",
                                     days=-1 if kind == "expired" else 30)
    return contextlib.closing(made(shared("files of " + kind, files), **more))


def intercept(headers=None, **more):
    """The policy's member."""
    with open(web_authority().file) as f:
        roots = f.read()
    headers = HEADERS if headers is None else headers
    return {"ca": sandbox_authority().as_member(), "roots": roots, "hosts": [{"host": NAME, "headers": headers}],
            "secrets": [{"name": "openai", "value": SECRET}], **more}


def policy(s, name=NAME, **more):
    return {**only("*.test", hosts=[s.host(name)]), "intercept": intercept(**more)}


def trusting(*protocols, verify=True, file=None):
    c = ssl.create_default_context(cafile=file or sandbox_authority().file)
    if protocols:
        c.set_alpn_protocols(list(protocols))
    if not verify:
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    return c


def connect(w, *protocols, name=NAME, port=443, sni=None, **more):
    """A program's TLS connection."""
    s = w.connected(w.address(name), port)
    try:
        return trusting(*protocols, **more).wrap_socket(s, server_hostname=sni or name)
    except BaseException:
        s.close()
        raise


class Client:
    """HTTP/1.1 of a program."""

    def __init__(self, s, name=NAME):
        self.http = HTTPConnection(name)
        self.http.sock = s

    def ask(self, path="/", method="GET", body=None, **headers):
        self.http.request(method, path, body=body, headers=headers)
        answer = self.http.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())


def request(w, path, **members):
    return w.hear(lambda m: "request" in m and m["request"].get("path") == path and
                  all(m["request"].get(k) == v for k, v in members.items()))["request"]


class Client2:
    """HTTP/2 of a program."""

    def __init__(self, s):
        self.s = s
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.c.initiate_connection()
        self.answers = {}

    def send(self, path, body=b"", name=NAME, **headers):
        stream = self.c.get_next_available_stream_id()
        pairs = [(":method", "POST"), (":path", path), (":scheme", "https"), (":authority", name), *headers.items()]
        self.c.send_headers(stream, pairs, end_stream=not body)
        if body:
            self.c.send_data(stream, body, end_stream=True)
        self.s.sendall(self.c.data_to_send())
        self.answers[stream] = {"body": b"", "headers": {}, "trailers": {}, "ended": False}
        return stream

    def answer(self, stream):
        a = self.answers[stream]
        while not a["ended"]:
            data = self.s.recv(65536)
            assert data, "the connection has ended"
            for e in self.c.receive_data(data):
                self.take(e)
            self.s.sendall(self.c.data_to_send())
        return int(a["headers"][":status"]), a["body"], a["headers"], a["trailers"]

    def take(self, e):
        a = self.answers.get(getattr(e, "stream_id", None))
        if isinstance(e, h2.events.ResponseReceived):
            a["headers"] = dict(e.headers)
        elif isinstance(e, h2.events.TrailersReceived):
            a["trailers"] = dict(e.headers)
        elif isinstance(e, h2.events.DataReceived):
            a["body"] += e.data
            self.c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
        elif isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)):
            a["ended"] = True


def judging(s, rules, generation=1, **more):
    """A policy whose rules alone need interception."""
    layer = {"rules": rules, "default": "deny", **more}
    return {"version": 1, "generation": generation, "layers": [layer], "dns": [], "hosts": [s.host(NAME)],
            "intercept": intercept(hosts=[])}


def through_tcp(w, name=NAME, same=False):
    """A port of this machine for programs that want one: each connection is a flow to the name, to port 443 or the same."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = w.address(name)
    port = listener.getsockname()[1] if same else 443

    def copy(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def run():
        with contextlib.suppress(OSError):
            while True:
                c, _ = listener.accept()
                s = w.connected(address, port)
                for a, b in ((c, s), (s, c)):
                    threading.Thread(target=copy, args=(a, b), daemon=True).start()
    threading.Thread(target=run, daemon=True).start()
    return listener
