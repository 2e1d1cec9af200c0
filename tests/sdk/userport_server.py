"""A service inside of a sandbox, on the port of the first argument: what userport.mjs talks to. With a second
argument it speaks TLS."""
import asyncio
import base64
import hashlib
import json
import ssl
import sys

EVENTS = 4
PIECE = 1 << 16

# Of nobody, and expired: nobody verifies it.
TLS = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKlpyMDt1xzX1GD7Z
F5sFhFgSF1BsoZjWz8RxTZjvzyOhRANCAARtbAX5Tp61vSeviKtUHUiIc133F5fy
21MIJ93T9jKKG2dfTqsLbwLYTkeExnFPWjjCxpbDWumag3mWl3lBAIL4
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUbk0roKsAHrccMDfCsIPlJYUjD14wCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MB4XDTI2MTEyMzA2MzY0MVoXDTI2MTEyNDA2MzY0
MVowETEPMA0GA1UEAwwGbm9ib2R5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
bWwF+U6etb0nr4irVB1IiHNd9xeX8ttTCCfd0/YyihtnX06rC28C2E5HhMZxT1o4
wsaWw1rpmoN5lpd5QQCC+KNTMFEwHQYDVR0OBBYEFNYgxaegORdafiOCFvjfiJ+D
KzvzMB8GA1UdIwQYMBaAFNYgxaegORdafiOCFvjfiJ+DKzvzMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgTZVFayhGS5bJl4uJOJZnsuyUXE1gCh8P
sbcFYeXdDmACIQD/B8CQXyJvWhNetSIjTkyfY7US+cYtji8TfBBoabjNfA==
-----END CERTIFICATE-----
"""


async def chunks(reader, headers):
    """The request's body in pieces."""
    if "chunked" in headers.get("transfer-encoding", ""):
        while size := int(await reader.readline(), 16):
            yield await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return
    left = int(headers.get("content-length", 0))
    while left:
        data = await reader.read(min(left, PIECE))
        left -= len(data)
        yield data


def head(writer, status, **fields):
    lines = [f"HTTP/1.1 {status}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


async def piece(writer, data):
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
    await writer.drain()


async def events(reader, writer, headers):
    """Each event but the first waits until the one before was acknowledged at /ack."""
    head(writer, "200 OK", Content_Type="text/event-stream", Transfer_Encoding="chunked")
    for n in range(1, EVENTS + 1):
        await piece(writer, b"data: %d\n\n" % n)
        await acknowledged.get()
    writer.write(b"0\r\n\r\n")


async def ack(reader, writer, headers):
    acknowledged.put_nowait(None)
    head(writer, "204 No Content")


async def digest(reader, writer, headers):
    h = hashlib.sha256()
    async for data in chunks(reader, headers):
        h.update(data)
    head(writer, "200 OK", Content_Length=64)
    writer.write(h.hexdigest().encode())


async def duplex(reader, writer, headers):
    head(writer, "200 OK", Transfer_Encoding="chunked")
    await writer.drain()
    async for data in chunks(reader, headers):
        await piece(writer, data)
    writer.write(b"0\r\n\r\n")


async def big(reader, writer, headers):
    head(writer, "200 OK", Transfer_Encoding="chunked")
    for _ in range(int(headers["x-pieces"])):
        await piece(writer, b"x" * PIECE)
    writer.write(b"0\r\n\r\n")


async def cut(reader, writer, headers):
    head(writer, "200 OK", Content_Length=100)
    writer.write(b"x")


async def rude(reader, writer, headers):
    writer.transport.abort()


async def junk(reader, writer, headers):
    writer.write(b"this is no HTTP\r\n\r\n")


async def none(reader, writer, headers):
    head(writer, "204 No Content")


async def tunnel(reader, writer, headers):
    """Not a WebSocket's frames but whatever comes, so that the tunnel itself is seen."""
    upgrade(writer, headers)
    writer.write(b"hello")
    while data := await reader.read(PIECE):
        writer.write(data)
        await writer.drain()


def upgrade(writer, headers):
    key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    writer.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())


async def frame(reader):
    """(first byte, payload) of a client's frame, which is masked."""
    first, n = await reader.readexactly(2)
    n &= 0x7f
    if n >= 126:
        n = int.from_bytes(await reader.readexactly(2 if n == 126 else 8), "big")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(n)
    key = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
    return first, (int.from_bytes(data, "big") ^ key).to_bytes(n, "big")


async def websocket(reader, writer, headers):
    """Echoes messages; answers pings and the close frame."""
    upgrade(writer, headers)
    first = 0
    while first & 0xf != 8:
        first, data = await frame(reader)
        if first & 0xf == 9:
            first = first & 0xf0 | 10
        n = len(data)
        size = bytes([n]) if n < 126 else b"\x7e" + n.to_bytes(2, "big") if n < 1 << 16 else \
            b"\x7f" + n.to_bytes(8, "big")
        writer.write(bytes([first]) + size + data)
        await writer.drain()


PATHS = {"/events": events, "/ack": ack, "/hash": digest, "/duplex": duplex, "/big": big,
         "/cut": cut, "/rude": rude, "/junk": junk, "/none": none, "/tunnel": tunnel,
         "/websocket": websocket}


async def serve(reader, writer):
    try:
        method, url, _ = (await reader.readline()).decode().split(" ")
        headers = {}
        while (line := (await reader.readline()).decode().rstrip("\r\n")):
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        if url in PATHS:
            await PATHS[url](reader, writer, headers)
        else:
            text = json.dumps({"method": method, "url": url, "headers": headers}).encode()
            head(writer, "200 OK", Content_Length=len(text))
            writer.write(text if method != "HEAD" else b"")
        await writer.drain()
        writer.close()
    except (OSError, ValueError, asyncio.IncompleteReadError):
        writer.transport.abort()


async def main():
    global acknowledged
    acknowledged = asyncio.Queue()
    tls = None
    if len(sys.argv) > 2:
        with open(__file__ + ".pem", "w", encoding="ascii") as f:
            f.write(TLS)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(f.name)
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=256, ssl=tls)
    await server.serve_forever()


asyncio.run(main())
