"""TLS servers for tests, on loopback: they speak HTTP/1.1, HTTP/2, websockets and event streams, and remember what
they were asked."""
import base64
import contextlib
import hashlib
import json
import queue
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events

WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Lines:
    """Reads lines and bytes from a connection."""

    def __init__(self, c):
        self.c, self.data = c, b""

    def until(self, end):
        while end not in self.data:
            more = self.c.recv(65536)
            if not more:
                raise EOFError
            self.data += more
        line, self.data = self.data.split(end, 1)
        return line

    def exactly(self, n):
        pieces, have = [self.data], len(self.data)
        while have < n:
            pieces.append(self.c.recv(65536))
            if not pieces[-1]:
                raise EOFError(have)
            have += len(pieces[-1])
        data = b"".join(pieces)
        self.data = data[n:]
        return data[:n]


class Server:
    """What it does depends on the path: see answer1. `asked`: (protocol, method, path, headers, body)."""

    def __init__(self, files, protocols=("h2", "http/1.1")):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*files)
        if protocols:
            self.context.set_alpn_protocols(list(protocols))
        self.asked, self.events, self.failed = queue.Queue(), queue.Queue(), queue.Queue()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.socket.getsockname()[1]
        self.body = 1 << 20
        self.go = threading.Event()  # read bodies
        self.go.set()
        self.connections = []
        self.last = b""  # body, of HTTP/1.1
        threading.Thread(target=self.accept, daemon=True).start()

    def host(self, name):
        """As the policy has it: `hosts`."""
        return {"name": name, "address": "127.0.0.1", "port": self.port}

    def accept(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            with self.context.wrap_socket(c, server_side=True) as s:
                self.connections.append(s)
                if s.selected_alpn_protocol() == "h2":
                    self.serve2(s)
                else:
                    self.serve1(s)
        except (OSError, EOFError) as e:
            self.failed.put(e)

    def drop(self):
        """Ends the connections that there are, as servers do that hear nothing for long."""
        for s in self.connections:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def close(self):
        self.socket.close()

    # --- HTTP/1.1 ---

    def serve1(self, s):
        lines = Lines(s)
        while True:
            method, path, _ = lines.until(b"\r\n").decode().split(" ")
            headers = []
            while line := lines.until(b"\r\n").decode():
                name, value = line.split(":", 1)
                headers.append((name.lower(), value.strip()))
            length = int(dict(headers).get("content-length", "0"))
            self.go.wait()
            body = lines.exactly(length) if length else b""
            self.asked.put(("HTTP/1.1", method, path, headers, body))
            self.last = body
            if not self.answer1(s, lines, path, dict(headers)):
                return

    def answer1(self, s, lines, path, headers):
        """Returns whether the connection goes on."""
        if path == "/events":
            s.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            while (event := self.events.get()) is not None:
                s.sendall(event)
            s.unwrap()
            return False
        if path == "/cut":
            s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome\n")
            return False
        if path in ("/bye", "/leave"):
            s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole")
            if path == "/bye":
                s.unwrap()
            return False
        if path == "/websocket":
            key = hashlib.sha1((headers["sec-websocket-key"] + WEBSOCKET).encode()).digest()
            s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                      b"sec-websocket-accept: " + base64.b64encode(key) + b"\r\n\r\n")
            while data := lines.data or s.recv(65536):
                lines.data = b""
                s.sendall(b"<" + data + b">")
            return False
        if path == "/large":
            s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % self.body)
            s.sendall(b"x" * self.body)
            return True
        body = json.dumps(headers).encode()
        s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nx-said: %s\r\n\r\n" %
                  (len(body), headers.get("authorization", "").encode()) + body)
        return True

    # --- HTTP/2 ---

    def serve2(self, s):
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        c.initiate_connection()
        s.sendall(c.data_to_send())
        requests = {}
        while data := s.recv(65536):
            for e in c.receive_data(data):
                if isinstance(e, h2.events.RequestReceived):
                    requests[e.stream_id] = [dict(e.headers), b""]
                elif isinstance(e, h2.events.DataReceived):
                    requests[e.stream_id][1] += e.data
                    c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                elif isinstance(e, h2.events.StreamEnded):
                    self.answer2(c, e.stream_id, *requests.pop(e.stream_id))
            s.sendall(c.data_to_send())

    def answer2(self, c, stream, headers, body):
        self.asked.put(("HTTP/2", headers[":method"], headers[":path"], list(headers.items()), body))
        data = json.dumps(headers).encode()
        c.send_headers(stream, [(":status", "200"), ("x-said", headers.get("authorization", ""))])
        c.send_data(stream, data)
        c.send_headers(stream, [("grpc-status", "0")], end_stream=True)
