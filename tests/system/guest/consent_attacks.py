"""Runs as root in a sandbox of which people are asked, and whose requests to models are judged. It forges approvals,
floods them, and hides from rules what its requests say. Tables that grow, as in attacks.py: each attempt returns what it
reached, or nothing. The servers of the test count what arrives: nothing may, but what has CONTROL in it.

	consent_attacks.py ABOUT	tries all, and prints JSON
	consent_attacks.py flood NAME COUNT	opens so many connections, each to another port, and prints how many there are, once
					/dev/shm/stop is there"""
import gzip
import hashlib
import hmac
import json
import os
import select
import socket
import sys
import time
import zlib

import attacks
from attacks import add, frame, h2_string, head2

MESSAGES = b"/v1/messages"
CONTROL = "control"
GOOD = {"model": "claude-1", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
EVIL = {**GOOD, "model": "evil-1"}


def policy(asked):
    """Which all this is against. asked: the host about which people are asked."""
    return {"version": 1, "default": "deny", "rules": [
        {"id": "claude", "action": "allow", "host": "model.test", "api": "anthropic", "models": "claude-*", "maxTokens": 100, "serverTools": False},
        {"id": "evil", "action": "deny", "host": "open.test", "models": "evil-*"},
        {"id": "fetched", "action": "deny", "host": "open.test", "serverTools": True},
        {"id": "rest", "action": "allow", "host": "open.test"}, {"id": "shop", "action": "ask", "host": asked}]}


PACE_S = 0.05  # of each of the threads: a sandbox may open 200 connections a second
JSON = b"Content-Type: application/json\r\n"


def text(value):
    return json.dumps(value).encode()


# --- approvals that are forged ---

def forged(t):
    """Requests that would decide one, or tell of it: by id, by guessed ones, by links, as an operator, as another host."""
    one, allow = t["approval"].encode(), b'{"decision":"allow","for":"template"}'
    paths = [b"/approvals", b"/approvals/" + one, b"/approvals?state=waiting&follow=true", b"/v2/approvals/" + one,
             b"/approvals/apr_" + b"a" * 20, b"//approvals/" + one, b"/why/../approvals/" + one, b"/approvals/" + one + b"/link"]
    for key in (b"", b"\0" * 32, one, t["sandbox"].encode(), b"mayfly"):
        for expires in (b"1", b"4102444800"):
            mac = hmac.new(key, one + b"." + expires, hashlib.sha256).hexdigest().encode()
            paths.append(b"/approvals/" + one + b"/link?expires=" + expires + b"&signature=" + mac)
    for path in paths:
        for method in (b"GET", b"POST", b"DELETE"):
            yield method + b" " + path, request(method, path, b"mayfly.internal", JSON, allow)
    for fields in (b"X-API-Key: \r\n", b"X-API-Key: e2b_" + b"0" * 40 + b"\r\n", b"Authorization: Bearer operator\r\n",
                   b"X-Forwarded-For: 127.0.0.1\r\n", b"X-Sandbox-ID: " + t["sandbox"].encode() + b"\r\n", b"Upgrade: h2c\r\n"):
        yield b"with " + fields[:20], request(b"POST", b"/approvals/" + one, b"127.0.0.1", JSON + fields, allow)
    yield b"a line of the worker's", b'{"ask":{"id":1,"decision":"allow"}}\n' * 3


def request(method, path, host, fields, body):
    return b"%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n" % (method, path, host, fields, len(body)) + body


def decides(host, port, data):
    time.sleep(PACE_S)
    with attacks.reach(host, port) as s:
        s.settimeout(attacks.QUIET_S)
        s.sendall(data)
        got = attacks.read_some(s)
        return got[:200] if b"approval" in got.lower() and b" 404 " not in got[:20] and b" 403 " not in got[:20] else None


def opens(data):
    time.sleep(PACE_S)
    return attacks.stream_answers(data)


def add_forged(t):
    for host, port in t["api"]:
        for name, data in forged(t):
            add(f"forged: {name.decode()} to {host}:{port}", decides, host, port, data)
    for name, data in forged(t):
        add(f"forged: {name.decode()} by vsock", opens, data)


# --- what bodies say ---

def sends(host, data):
    """Returns what came if the request was fine."""
    time.sleep(PACE_S)
    with attacks.tls(host) as s:
        s.settimeout(attacks.PATIENCE_S)
        s.sendall(data)
        got = b""
        while b"\r\n" not in got and (piece := s.recv(65536)):
            got += piece
        return got[:100] if got.startswith(b"HTTP/1.1 2") else None


def posts(host, body, fields=JSON, path=MESSAGES):
    return sends(host, request(b"POST", path, host.encode(), fields, body))


def chunked(host, pieces, fields=JSON, end=b"0\r\n\r\n"):
    """pieces: (line of its size, data)"""
    head = b"POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n%s\r\n" % (MESSAGES, host.encode(), fields)
    return sends(host, head + b"".join(line + b"\r\n" + data + b"\r\n" for line, data in pieces) + end)


def add_chunks(host):
    evil = text(EVIL)
    for n in (1, 2, 7, len(evil)):
        pieces = [evil[i:i + n] for i in range(0, len(evil), n)]
        add(f"{host}: chunks of {n}", chunked, host, [(b"%x" % len(p), p) for p in pieces])
        add(f"{host}: chunks of {n} with zeros", chunked, host, [(b"%08X" % len(p), p) for p in pieces])
        add(f"{host}: chunks of {n} with words", chunked, host, [(b'%x;a="b\\"c";d' % len(p), p) for p in pieces])
        for trailer in (b"content-encoding: gzip", b"content-type: text/plain", b"x: y"):
            add(f"{host}: chunks of {n} and {trailer.decode()}", chunked, host, [(b"%x" % len(p), p) for p in pieces],
                JSON + b"Trailer: x\r\n", b"0\r\n" + trailer + b"\r\n\r\n")
    add(f"{host}: a good body in chunks, and one behind", chunked, host, [(b"%x" % len(text(GOOD)), text(GOOD)), (b"%x" % len(evil), evil)])
    add(f"{host}: it waits to be told", posts, host, evil, JSON + b"Expect: 100-continue\r\n")


CODINGS = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "gzip, gzip", "gzip, identity", "identity, gzip", "GZIP", "gzip;q=1", "",
           "none", "aws-chunked", "*", "identity", "identity, identity", "exi", "dcb"]


def raw_deflate(data):
    c = zlib.compressobj(wbits=-15)
    return c.compress(data) + c.flush()


def packed():
    evil = text(EVIL)
    yield from (("plain", evil), ("gzip", gzip.compress(evil)), ("twice", gzip.compress(gzip.compress(evil))), ("zlib", zlib.compress(evil)),
                ("deflate", raw_deflate(evil)), ("good, then gzip", text(GOOD) + gzip.compress(evil)),
                ("zstd, raw", b"\x28\xb5\x2f\xfd\x60" + (len(evil) - 256 & 0xffff).to_bytes(2, "little") + (len(evil) << 3 | 1).to_bytes(3, "little") + evil),
                ("br, raw", b"\x0b" + (len(evil) - 1 & 0xff).to_bytes(1, "little") + b"\x80" + evil + b"\x03"))


def add_codings(host):
    for coding in CODINGS:
        for name, body in packed():
            field = b"Content-Encoding: %s\r\n" % coding.encode()
            add(f"{host}: {name} called {coding!r}", posts, host, body, JSON + field)
            add(f"{host}: {name} called {coding!r} behind identity", posts, host, body, JSON + b"Content-Encoding: identity\r\n" + field)
    for name, body in packed():
        add(f"{host}: {name} with a coding of its transfer", posts, host, body, JSON + b"Transfer-Encoding: gzip\r\n")
        add(f"{host}: {name} with content_encoding", posts, host, body, JSON + b"Content_Encoding: gzip\r\n")


TYPES = [b"", b"Content-Type: text/plain\r\n", b"Content-Type: application/json; charset=utf-16\r\n", b"Content-Type: application/json;charset=utf-7\r\n",
         b"Content-Type: application/x-www-form-urlencoded\r\n", b"Content-Type: application/vnd.api+json\r\n", JSON + JSON,
         JSON + b"Content-Type: text/plain\r\n", b"Content-Type: application/json, text/plain\r\n", b"Content-Type:\r\n",
         b"Content-Type: application/jsonx\r\n", b"Content-Type: multipart/form-data; boundary=b\r\n", b"Content-Type: application/cbor\r\n"]


def part(name, body, more=b""):
    return b'--b\r\nContent-Disposition: form-data; name="%s"\r\n%s\r\n%s\r\n' % (name, more, body)


def add_types(host):
    evil = text(EVIL)
    for fields in TYPES:
        bodies = [("json", evil), ("utf-16", evil.decode().encode("utf-16")), ("fields", b"model=evil-1&max_tokens=9"),
                  ("parts", part(b"model", b"evil-1") + b"--b--\r\n"), ("a part of json", part(b"body", evil, JSON) + b"--b--\r\n")]
        for name, body in bodies:
            add(f"{host}: {name} with {fields.decode()!r}", posts, host, body, fields)


# --- JSON ---

TWICE = [b'"model":"evil-1"', b'"\\u006dodel":"evil-1"', b'"m\\u006Fdel":"evil-1"', b'"Model":"evil-1"', b'"MODEL":"evil-1"', b'"mo_del":"evil-1"',
         b'"\\u006d\\u006f\\u0064\\u0065\\u006c":"evil-1"', b'"models":["evil-1"]', b'"model":["evil-1"]', b'"model":null', b'"model":{"id":"evil-1"}',
         b'"max_tokens":1,"Max_Tokens":100000', b'"mcp_servers":[],"mcp\\u005fservers":[{"url":"https://x"}]', b'"tools":[],"Tools":[{"type":"web_search_20250305"}]']


def documents():
    """Texts of which some reader takes another model than a strict one does."""
    good, evil = text(GOOD), text(EVIL)
    for n, member in enumerate(TWICE):
        yield f"twice {n}", b"{" + b'"model":"claude-1",' + member + b',"max_tokens":9,"messages":[]}'
        yield f"twice {n}, before", b"{" + member + b',"model":"claude-1","max_tokens":9,"messages":[]}'
    for coding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "utf-7", "cp037"):
        yield coding, evil.decode().encode(coding)
        yield f"a good one, then {coding}", good + evil.decode().encode(coding)
    for between in (b"", b"\n", b"\0", b"\x1e", b",", b"//", b"/*", b";", b"\r\n\r\n", b"\x1a", b" \xef\xbb\xbf"):
        yield f"two with {between!r} between", good + between + evil
        yield f"two with {between!r} between, the other way", evil + between + good
    yield from (("a list", b"[" + good + b"," + evil + b"]"), ("a list of it", b"[" + evil + b"]"), ("a comment", evil.replace(b",", b",/*x*/", 1)),
                ("single quotes", evil.replace(b'"', b"'")), ("no quotes", b'{model:"evil-1",max_tokens:9,messages:[]}'),
                ("a comma at the end", evil[:-1] + b",}"), ("cut", evil[:-1]), ("NaN", evil[:-1] + b',"x":NaN}'), ("a text", text(evil.decode())),
                ("a half of a pair", evil[:-1] + b',"\\ud800":1}'), ("a long form", evil.replace(b"/", b"\xc0\xaf") + b"\xc0\x80"),
                ("padding", b")]}',\n" + evil), ("a callback", b"f(" + evil + b")"), ("an event", b"data: " + evil + b"\n\n"),
                ("blanks", b" \t\r\n" * 1000 + evil), ("much before", evil[:-1].replace(b"{", b'{"x":"' + b"y" * 100000 + b'",', 1) + b"}"),
                ("deep", b'{"x":' + b"[" * 70 + b"]" * 70 + b"," + evil[1:]), ("a vertical tab", b"\x0b" + evil), ("escapes", evil.replace(b"evil", b"\\u0065vil")),
                ("a zero byte in the model", good.replace(b"claude-1", b"evil-1\\u0000claude-1")), ("case", evil.replace(b"evil", b"EVIL")))


FETCHED = [{"tools": [tool]} for kind in ("web_search_20250305", "web_search_20991231", "web_search", "Web_Search_20991231", "web-search_20991231",
           "webSearch", "web_fetch_20250910", "code_execution_20250825", "bash_code_execution_20991231", "mcp", "mcp_toolset", "anything_20991231", "url_context",
           "computer_use_preview", "file_search", "image_generation", "", "function ", " custom") for tool in (
               {"type": kind, "name": "custom"}, {"name": "x", "input_schema": {}, "type": kind})] + [
    {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}, {"MCPServers": [{"url": "https://x"}]}, {"mcpServers": {"x": {"url": "https://x"}}},
    {"container": "c"}, {"container": {"skills": [{"skill_id": "pptx"}]}}, {"plugins": [{"id": "web"}]}, {"prompt": {"id": "p"}},
    {"cached_content": "c"}, {"models": ["evil-1"]}, {"web_search_options": {}}, {"tools": {"type": "web_search_20250305"}},
    {"tools": [[{"type": "web_search_20250305"}]]}, {"tools": [{"googleSearch": {}}]}, {"tools": [{"type": ["web_search_20250305"]}]}]
FETCHED += [{"messages": [{"role": "user", "content": content}]} for content in (
    [{"type": "image", "source": {"type": "url", "url": "https://x"}}], [{"type": "document", "source": {"type": "url", "url": "https://x"}}],
    [{"type": "document", "source": {"type": "file", "file_id": "f"}}], [{"type": "document", "source": {"url": "https://x"}}],
    [{"type": "image", "source": {"type": "URL", "url": "https://x"}}], [{"type": "container_upload", "file_id": "f"}],
    [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}],
    [{"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}}],
    [{"type": "image_url", "image_url": {"url": "https://x"}}], [{"type": "input_image", "image_url": "https://x"}],
    [{"type": "input_file", "file_url": "https://x"}], [{"fileData": {"fileUri": "https://x"}}], {"type": "image", "source": {"type": "url", "url": "https://x"}})]


def add_documents(host):
    for name, body in documents():
        add(f"{host}: {name}", posts, host, body)
    for n, more in enumerate(FETCHED):
        body = text({**GOOD, **more})
        add(f"{host}: fetched {n}: {body[-70:].decode()}", posts, host, body)
        add(f"{host}: fetched {n} with escapes", posts, host, body.replace(b"_", b"\\u005f").replace(b"type", b"typ\\u0065"))
    for path in (b"/v1/messages/", b"//v1/messages", b"/v1/%6dessages", b"/V1/Messages", b"/x/../v1/messages", b"/v1/messages;x", b"/v1/messages?beta=true",
                 b"/v1/messages%2f", b"/v1/./messages", b"/v1\\messages", b"/v1/messages%00", b"/v1/messages#x", b"/v1/messages//", b"/v1/messages%20"):
        add(f"{host}: at {path.decode()}", posts, host, text(EVIL), JSON, path)
    for field in (b"X-Original-URL: /v1/messages\r\n", b"X-HTTP-Method-Override: POST\r\n"):
        add(f"{host}: with {field[:10].decode()}", posts, host, text(EVIL), JSON + field)
        add(f"{host}: elsewhere with {field[:10].decode()}", posts, host, text(EVIL), JSON + field, MESSAGES + b"?x")


# --- frames of HTTP/2 ---

def block(host, more=((b"content-type", b"application/json"),), method=b"POST"):
    return b"".join(b"\0" + h2_string(k) + h2_string(v) for k, v in head2(method, MESSAGES, host.encode(), more=more))


def data_frames(body, size, pad=0, stream=1, end=1):
    pieces = [body[i:i + size] for i in range(0, len(body), size)]
    for n, piece in enumerate(pieces):
        flags = (end if n == len(pieces) - 1 else 0) | (8 if pad else 0)
        yield frame(0, flags, stream, (bytes([pad]) + piece + bytes(pad)) if pad else piece)


def frames(host):
    body, head = text(EVIL), block(host)
    plain = frame(1, 4, 1, head)
    for size in (1, 3, len(body)):
        for pad in (0, 1, 255):
            yield f"data of {size} with {pad}", plain + b"".join(data_frames(body, size, pad))
    yield "empty data between", plain + b"".join(frame(0, 0, 1, b"") + f for f in data_frames(body, 5))
    yield "heads in pieces", frame(1, 0, 1, head[:1]) + b"".join(frame(9, 0, 1, head[i:i + 1]) for i in range(1, len(head))) + \
        frame(9, 4, 1, b"") + frame(0, 1, 1, body)
    yield "a padded head", frame(1, 12, 1, b"\x20" + head + bytes(32)) + frame(0, 1, 1, body)
    yield "a head with a weight", frame(1, 0x24, 1, bytes(4) + b"\x10" + head) + frame(0, 1, 1, body)
    yield "trailers end it", plain + frame(0, 0, 1, body) + frame(1, 5, 1, b"\0" + h2_string(b"content-encoding") + h2_string(b"gzip"))
    yield "behind the end", frame(1, 5, 1, head) + frame(0, 1, 1, body)
    yield "a good body, then behind its end", plain + frame(0, 1, 1, text(GOOD).replace(b"hi", CONTROL.encode())) + frame(0, 1, 1, body)
    yield "pings and settings between", plain + b"".join(frame(6, 0, 0, bytes(8)) + frame(4, 0, 0, b"") + f for f in data_frames(body, 9))
    yield "beside a good one", frame(1, 4, 3, head) + frame(0, 0, 3, b"{") + frame(1, 4, 5, head) + frame(0, 1, 5, body) + frame(0, 1, 3, text(EVIL)[1:])
    yield "frames of unknown types between", plain + b"".join(frame(0x33, 0, 1, b"x") + f for f in data_frames(body, 9))
    for name, more in {"too short a length": [(b"content-length", b"1")], "two types": [(b"content-type", b"text/plain")], "gzip": [(b"content-encoding", b"gzip")],
                       "a coding": [(b"transfer-encoding", b"chunked")], "two codings": [(b"content-encoding", b"identity"), (b"content-encoding", b"br")],
                       "another method": [(b"x-http-method-override", b"GET")], "a trailer": [(b"trailer", b"content-type"), (b"te", b"trailers")]}.items():
        fields = ((b"content-type", b"application/json"), *more)
        yield name, frame(1, 4, 1, block(host, fields)) + frame(0, 1, 1, body)
        yield f"{name}, packed", frame(1, 4, 1, block(host, fields)) + frame(0, 1, 1, gzip.compress(body))
    for n, (_, other) in enumerate(documents()):
        yield f"document {n}", plain + b"".join(data_frames(other, 4000))
    for n, more in enumerate(FETCHED):
        yield f"fetched {n}", plain + frame(0, 1, 1, text({**GOOD, **more}))


def sends2(host, data):
    time.sleep(PACE_S)
    with attacks.tls(host, ("h2",)) as s:
        s.settimeout(attacks.QUIET_S)
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + data)
        got = b""
        try:
            while not ended(got) and (piece := s.recv(65536)):
                got += piece
        except OSError:
            pass
    return None  # the server knows


def ended(data):
    """Whether a stream or the connection has ended."""
    while len(data) >= 9:
        length = int.from_bytes(data[:3], "big")
        if data[3] in (3, 7) or (data[3] in (0, 1) and data[4] & 1):
            return True
        data = data[9 + length:]
    return False


def add_frames(host):
    for name, data in frames(host):
        add(f"{host}: http2: {name}", sends2, host, data)


# --- running them ---

def control(host):
    body = text({**GOOD, "messages": [{"role": "user", "content": CONTROL}]})
    return posts(host, body), sends2(host, frame(1, 4, 1, block(host)) + frame(0, 1, 1, body))


def add_all(t):
    """{"api": [host, port] of the daemon, in all the words there are for it, "approval": the id of one that waits, "sandbox": this
    one's id, "models": hosts whose requests are judged, "every": the n-th of what is hidden is tried}"""
    add_forged(t)
    at = len(attacks.ATTEMPTS)
    for host in t["models"]:
        for family in (add_chunks, add_codings, add_types, add_documents, add_frames):
            family(host)
    attacks.ATTEMPTS[at:] = attacks.ATTEMPTS[at::t["every"]]


def begin(address, port):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((address, port))
    return s


def is_through(s):
    return select.select([], [s], [], 0)[1] and s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def flood(name, count):
    address, waiting = socket.gethostbyname(name), []
    for n in range(int(count)):
        waiting.append(begin(address, 1000 + n))  # not 53, where the host itself answers
        time.sleep(PACE_S / 8)
    while not os.path.exists("/dev/shm/stop"):
        time.sleep(0.1)
    through = [1000 + n for n, s in enumerate(waiting) if is_through(s)]
    print(len(through), *through)


def main():
    if sys.argv[1] == "flood":
        flood(*sys.argv[2:])
        return
    t = json.loads(sys.argv[1])
    socket.setdefaulttimeout(attacks.PATIENCE_S)
    before = [bool(control(host)[0]) for host in t["models"]]
    add_all(t)
    found = attacks.try_all()
    json.dump({"attempts": len(attacks.ATTEMPTS), "open": [one for one in found if one], "control": before}, sys.stdout)


if __name__ == "__main__":
    main()
