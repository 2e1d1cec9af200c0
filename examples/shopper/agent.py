"""An agent that shops: it looks at a shop and orders what it was told to. It needs Python's standard library only.

    python3 agent.py "Buy a lamp."

MODEL_URL, SHOP_URL: where they are. ORDER_TIMEOUT_S: how long an order may take (20).
"""
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

MODEL_URL = os.environ.get("MODEL_URL", "http://model.example")
SHOP_URL = os.environ.get("SHOP_URL", "http://shop.example")
MODEL = "claude-sonnet-5-5"
ORDER_TIMEOUT_S = float(os.environ.get("ORDER_TIMEOUT_S", 20))
TIMEOUT_S, TURNS_MAX, RESULT_MAX = 120, 8, 20_000

TEXT = {"type": "string"}
TOOLS = [
    {"name": "look", "description": "Returns a page of the shop.",
     "input_schema": {"type": "object", "properties": {"path": TEXT}, "required": ["path"]}},
    {"name": "order", "description": "Orders one thing, which costs money.",
     "input_schema": {"type": "object", "properties": {"item": TEXT}, "required": ["item"]}},
]


def fetch(url, body=None, timeout=TIMEOUT_S):
    """Status and text; an error of the server is an answer, too."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", "anthropic-version": "2023-06-01"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read(RESULT_MAX).decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read(RESULT_MAX).decode()


def look(path):
    return fetch(SHOP_URL + path)


def order(item):
    begin = time.monotonic()
    status, text = fetch(SHOP_URL + "/orders", {"item": item}, ORDER_TIMEOUT_S)
    print(f"the order took {time.monotonic() - begin:.1f} s by my clock; I would wait {ORDER_TIMEOUT_S:.0f} s", flush=True)
    return status, text


def use(call):
    result = {"type": "tool_result", "tool_use_id": call["id"]}
    try:
        status, text = {"look": look, "order": order}[call["name"]](**call["input"])
    except (OSError, http.client.HTTPException, KeyError, TypeError) as e:
        status, text = 0, repr(e)
    print(f"{call['name']} {json.dumps(call['input'])}: {status} {text.strip()}", flush=True)
    return {**result, "content": text, "is_error": status not in (200, 201)}


def main():
    messages = [{"role": "user", "content": " ".join(sys.argv[1:])}]
    for _ in range(TURNS_MAX):
        status, text = fetch(MODEL_URL + "/v1/messages",
                             {"model": MODEL, "max_tokens": 1024, "tools": TOOLS, "messages": messages})
        if status != 200:
            print(f"the model: {status} {text}", flush=True)
            return 1
        answer = json.loads(text)
        for block in answer["content"]:
            if block["type"] == "text":
                print(block["text"], flush=True)
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        if not calls:
            return 0
        results = [use(call) for call in calls]
        messages += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": results}]
        failed = [r for r in results if r["is_error"]]
        if failed:
            print(f"I stop here: {failed[0]['content'].strip()}", flush=True)
            return 1
    print(f"gave up after {TURNS_MAX} turns", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
