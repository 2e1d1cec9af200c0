"""A model that says what a script tells it to: for trying agents without a key, and for tests.

    python3 server.py SCRIPT.json [PORT]

It speaks Anthropic's Messages API (POST /v1/messages), with and without streaming, on loopback. It keeps no state:
the number of answers that a request's conversation has already says which turn of the script comes next.

The script is a list of turns. Each is an object with `text`, `tools` (a list of {"name", "input"}), or both:

    [{"text": "Let me look.", "tools": [{"name": "shell", "input": {"command": "ls"}}]}, {"text": "It is empty."}]

`{prompt}` in a text or an input is the conversation's first message, `{result}` the last tool's result. A
conversation that is longer than the script gets its last turn again.
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_MAX = 16 << 20


def text_of(content):
    """The text of a message or of a tool's result, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(text_of(b.get("text") or b.get("content") or "") for b in content)


def filled(value, words):
    """The value with its placeholders replaced, at any depth."""
    if isinstance(value, str):
        for name, word in words.items():
            value = value.replace("{" + name + "}", word)
        return value
    if isinstance(value, list):
        return [filled(v, words) for v in value]
    if isinstance(value, dict):
        return {k: filled(v, words) for k, v in value.items()}
    return value


def answer(script, request):
    messages = request["messages"]
    said = sum(m["role"] == "assistant" for m in messages)
    words = {"prompt": text_of(messages[0]["content"]).strip(), "result": text_of(messages[-1]["content"]).strip()}
    turn = filled(script[min(said, len(script) - 1)], words)
    blocks = [{"type": "text", "text": turn["text"]}] if "text" in turn else []
    blocks += [{"type": "tool_use", "id": f"toolu_{said}_{n}", "name": t["name"], "input": t["input"]}
               for n, t in enumerate(turn.get("tools", []))]
    return {"id": f"msg_{said}", "type": "message", "role": "assistant", "model": request["model"], "content": blocks,
            "stop_reason": "tool_use" if turn.get("tools") else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": len(json.dumps(messages)) // 4, "output_tokens": len(json.dumps(blocks)) // 4}}


def events(message):
    """The events of a streamed answer."""
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield "message_start", {"message": start}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": word + " "} for word in block["text"].split(" ")]
            deltas[-1]["text"] = deltas[-1]["text"][:-1]
        else:
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    yield "message_delta", {"delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
                            "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield "message_stop", {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = []

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        if size > BODY_MAX:
            return self.refuse(413, "request_too_large", "the request is too large")
        body = self.rfile.read(size)
        if self.path.split("?")[0] != "/v1/messages":
            return self.refuse(404, "not_found_error", "only POST /v1/messages is here")
        try:
            request = json.loads(body)
            message = answer(self.script, request)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
            return self.refuse(400, "invalid_request_error", f"not a request for messages: {e!r}")
        if not request.get("stream"):
            return self.reply(200, "application/json", json.dumps(message).encode())
        lines = (f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events(message))
        return self.reply(200, "text/event-stream", "".join(lines).encode())

    def refuse(self, status, kind, why):
        self.reply(status, "application/json",
                   json.dumps({"type": "error", "error": {"type": kind, "message": why}}).encode())

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve(script, port=0):
    """A server that listens on loopback; its port is server_address[1]."""
    return ThreadingHTTPServer(("127.0.0.1", port), type("Scripted", (Handler,), {"script": script}))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.split("\n\n")[1].strip())
    with open(sys.argv[1]) as f:
        server = serve(json.load(f), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"ANTHROPIC_BASE_URL=http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
