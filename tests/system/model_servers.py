"""A server for tests that speaks the APIs of model providers, with streams, and MCP (tls_servers.py). It counts tokens
itself: a word is one."""
import json

from tls_servers import Server


def sse(events):
    return b"".join(b"".join(f"{k}: {v}\n".encode() for k, v in e) + b"\n" for e in events)


def words(value):
    """Words of all texts in a value."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, dict):
        return sum(words(v) for k, v in value.items() if k in ("content", "text", "input", "messages", "contents", "parts"))
    return sum(words(v) for v in value) if isinstance(value, list) else 0


def anthropic(said, text, call):
    usage = {"input_tokens": words(said), "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3}
    out = words(text)
    tool = {"type": "tool_use", "id": "t1", "name": call, "input": {}}
    if not said.get("stream"):
        return "application/json", json.dumps(
            {"id": "m", "type": "message", "role": "assistant", "model": said["model"], "stop_reason": "tool_use",
             "content": [{"type": "text", "text": text}, {**tool, "input": {"name": "not a tool", "type": "tool_use"}}],
             "stop_sequence": None, "usage": {**usage, "output_tokens": out}}).encode()
    events = [{"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
                                                    "model": said["model"], "usage": {**usage, "output_tokens": 1}}},
              {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
              *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w + " "}}
                for w in text.split()),
              {"type": "content_block_stop", "index": 0},
              {"type": "content_block_start", "index": 1, "content_block": tool},
              {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
              {"type": "content_block_stop", "index": 1},
              {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": out}},
              {"type": "message_stop"}]
    return "text/event-stream", sse([("event", e["type"]), ("data", json.dumps(e))] for e in events)


def chat(said, text, call):
    usage = {"prompt_tokens": words(said), "completion_tokens": words(text), "total_tokens": words(said) + words(text)}
    base = {"id": "c", "created": 1, "model": said["model"]}
    tool = {"index": 0, "id": "t1", "type": "function", "function": {"name": call, "arguments": "{}"}}
    if not said.get("stream"):
        message = {"role": "assistant", "content": text, "tool_calls": [tool]}
        return "application/json", json.dumps({**base, "object": "chat.completion", "usage": usage, "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls"}]}).encode()
    deltas = [{"role": "assistant", "content": ""}, *({"content": w + " "} for w in text.split()), {"tool_calls": [tool]}]
    events = [{**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d}]} for d in deltas]
    events.append({**base, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return "text/event-stream", sse([("data", json.dumps(e))] for e in events) + b"data: [DONE]\n\n"


def responses(said, text, call):
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": call, "arguments": "{}", "status": "completed"}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": text, "annotations": []}]}
    whole = {"id": "r", "object": "response", "created_at": 1, "model": said["model"], "status": "completed",
             "output": [message, item], "parallel_tool_calls": True, "tools": [], "tool_choice": "auto",
             "usage": {"input_tokens": words(said), "input_tokens_details": {"cached_tokens": 9}, "output_tokens": words(text),
                       "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": words(said) + words(text)}}
    if not said.get("stream"):
        return "application/json", json.dumps(whole).encode()
    events = [{"type": "response.created", "response": {**whole, "output": [], "usage": None}},
              {"type": "response.output_item.done", "output_index": 1, "item": item},
              {"type": "response.completed", "response": whole}]
    return "text/event-stream", sse([("event", e["type"]), ("data", json.dumps({**e, "sequence_number": n}))]
                                    for n, e in enumerate(events))


def google(said, text, call, stream):
    usage = {"promptTokenCount": words(said), "candidatesTokenCount": words(text), "thoughtsTokenCount": 4,
             "totalTokenCount": words(said) + words(text) + 4}
    parts = [{"text": text}, {"functionCall": {"name": call, "args": {}}}]
    if not stream:
        return "application/json", json.dumps({"candidates": [{"content": {"role": "model", "parts": parts}}],
                                               "usageMetadata": usage}).encode()
    events = [{"candidates": [{"content": {"role": "model", "parts": [p]}}],
               "usageMetadata": {**usage, "candidatesTokenCount": n}} for n, p in ((1, parts[0]), (words(text), parts[1]))]
    if stream == "sse":
        return "text/event-stream", sse([("data", json.dumps(e))] for e in events)
    return "application/json", json.dumps(events).encode()


TOOLS = ("drop_all", "read_file", "other", "pay", "drop_b")


def mcp(said):
    """A server of tools without sessions. None: nothing is to be said."""
    if isinstance(said, list):
        return [answer for answer in map(mcp, said) if answer]

    def result(value):
        return {"jsonrpc": "2.0", "id": said["id"], "result": value}
    if "id" not in said:
        return None
    if said["method"] == "initialize":
        return result({"protocolVersion": said["params"]["protocolVersion"], "capabilities": {"tools": {}},
                       "serverInfo": {"name": "test", "version": "1"}})
    if said["method"] == "tools/list":
        return result({"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in TOOLS], "nextCursor": "more"}
                      if not said.get("params", {}).get("cursor") else {"tools": []})
    return result({"content": [{"type": "text", "text": said["params"]["name"]}]})


class ModelServer(Server):
    """Says `text` and calls the tool `call`."""

    text, call = "there are five words here", "get_weather"
    piece = 7  # bytes of a chunk
    in_events = False  # MCP is answered by a stream of them
    kind, coding = None, None  # of answers of MCP, in place of what they are
    stream = b""  # events for a GET

    def answer(self, path, body):
        """Content type and body; None: any other path."""
        path, _, query = path.partition("?")
        said = json.loads(body) if body else {}
        if path.endswith("/messages"):
            return anthropic(said, self.text, self.call)
        if path.endswith("/chat/completions"):
            return chat(said, self.text, self.call)
        if path.endswith("/responses"):
            return responses(said, self.text, self.call)
        if path.endswith("enerateContent"):
            stream = path.endswith("streamGenerateContent") and ("sse" if "alt=sse" in query else "array")
            return google(said, self.text, self.call, stream)
        if path == "/mcp" and said:
            value = mcp(said)
            if value and self.in_events:
                return "text/event-stream", sse([[("id", 1), ("event", "message"), ("data", json.dumps(value))]])
            return self.kind or "application/json", json.dumps(value).encode() if value else b""
        if path == "/mcp" and self.stream:
            return "text/event-stream", self.stream
        return None

    def answer1(self, s, lines, path, headers):
        said = self.answer(path, self.last)
        if path == "/mcp" and not self.last and not self.stream:
            s.sendall(b"HTTP/1.1 405 No stream\r\ncontent-length: 0\r\n\r\n")
            return True
        if not said:
            return super().answer1(s, lines, path, headers)
        kind, data = said
        if not data:
            s.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return True
        coding = f"content-encoding: {self.coding}\r\n" if self.coding else ""
        s.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{coding}transfer-encoding: chunked\r\n\r\n".encode())
        for i in range(0, len(data), self.piece):
            s.sendall(b"%x\r\n" % len(data[i:i + self.piece]) + data[i:i + self.piece] + b"\r\n")
        s.sendall(b"0\r\n\r\n")
        return True

    def answer2(self, c, stream, headers, body):
        said = self.answer(headers[":path"], body)
        if not said:
            super().answer2(c, stream, headers, body)
            return
        self.asked.put(("HTTP/2", headers[":method"], headers[":path"], list(headers.items()), body))
        c.send_headers(stream, [(":status", "200"), ("content-type", said[0]), ("content-length", str(len(said[1]))),
                                *([("content-encoding", self.coding)] if self.coding else [])])
        for i in range(0, len(said[1]), 16384):
            c.send_data(stream, said[1][i:i + 16384])
        c.end_stream(stream)
