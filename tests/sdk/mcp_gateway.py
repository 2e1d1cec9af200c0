#!/usr/bin/env python3
"""A small `mcp-gateway`, as a template for MCP has one. E2B's clients run `mcp-gateway --config JSON` as root, with
GATEWAY_ACCESS_TOKEN; it returns when its port answers, and serves MCP (streamable HTTP) until it is killed. In JSON are

    fail    a text: it ends with that and status 3
    token   true: it keeps the token where clients look for it later
    pid     a file, where it writes its process id in the sandbox

Its tools are `config`, which returns JSON, and `count`, whose answer is a stream with progress in it."""
import http.server
import json
import os
import sys

TOKEN_FILE = "/etc/mcp-gateway/.token"
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("config", "count")]


class Gateway(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value=None, **headers):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_events(self):
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, **message):
        self.wfile.write(f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode())

    def is_allowed(self):
        if self.path == "/mcp" and self.headers["Authorization"] == f"Bearer {os.environ['GATEWAY_ACCESS_TOKEN']}":
            return True
        self.answer(401, {"error": "the token is wrong"})
        return False

    def do_GET(self):
        """The stream of what the server says by itself; it stays open as long as the client does."""
        if not self.is_allowed():
            return
        self.begin_events()
        self.event(method="notifications/tools/list_changed")
        self.rfile.read(1)

    def do_DELETE(self):
        if self.is_allowed():
            self.answer(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_allowed():
            return
        if "id" not in message:
            self.answer(202)
        elif message["method"] == "initialize":
            self.initialize(message)
        elif self.headers["Mcp-Session-Id"] != "one":
            self.answer(404, {"error": "there is no such session"})
        elif message["method"] == "tools/list":
            self.result(message, {"tools": TOOLS})
        elif message["params"]["name"] == "count":
            self.count(message)
        else:
            self.result(message, {"content": [{"type": "text", "text": json.dumps(config)}]})

    def result(self, message, result, **headers):
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, **headers)

    def initialize(self, message):
        self.result(message, {
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "small", "version": "1"}}, Mcp_Session_Id="one")

    def count(self, message):
        self.begin_events()
        for n in (1, 2, 3):
            self.event(method="notifications/progress", params={
                "progressToken": message["params"]["_meta"]["progressToken"], "progress": n, "total": 3})
        self.event(id=message["id"], result={"content": [{"type": "text", "text": "counted"}]})


if sys.argv[1] != "--config":
    sys.exit(f"mcp-gateway: unknown argument {sys.argv[1]}")
config = json.loads(sys.argv[2])
if "fail" in config:
    print(config["fail"], file=sys.stderr)
    sys.exit(3)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 50005), Gateway)
if config.get("token"):
    with open(TOKEN_FILE, "w") as f:
        f.write(os.environ["GATEWAY_ACCESS_TOKEN"])
pid = os.fork()
if pid:
    if "pid" in config:
        with open(config["pid"], "w") as f:
            f.write(str(pid))
    sys.exit()
os.setsid()
for fd in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), fd)
server.serve_forever()
