"""A server of MCP on its standard streams, for mcp.mjs: mcp_server.py NAME. Its tools: `count`, which reports progress;
`about`, whose name other servers have too; `NAME-end`, which ends it."""
import json
import os
import sys

NAME = sys.argv[1]
TOOLS = [{"name": n, "inputSchema": {"type": "object"}} for n in ("count", "about", f"{NAME}-end")]


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def count(params):
    for n in (1, 2, 3):
        say(method="notifications/progress", params={
            "progressToken": params["_meta"]["progressToken"], "progress": n, "total": 3})
    return text("counted")


def about():
    return text(json.dumps({"name": NAME, "cwd": os.getcwd(), "there": sorted(os.listdir()), "V": os.environ.get("V"),
                            "token": "GATEWAY_ACCESS_TOKEN" in os.environ}))


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": NAME, "version": "1"}}
    if method == "tools/list":  # a page for each
        at = int(params.get("cursor", "0"))
        return {"tools": TOOLS[at:at + 1], **({"nextCursor": str(at + 1)} if at + 1 < len(TOOLS) else {})}
    if method == "resources/list":
        return {"resources": [{"uri": f"test://{NAME}", "name": NAME}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"of {NAME}"}]}
    if method == "tools/call" and params["name"] == "count":
        return count(params)
    if method == "tools/call" and params["name"] == "about":
        return about()
    sys.exit()


print("it starts")  # which the protocol forbids, and servers do
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        say(id=message["id"], result=answer(message["method"], message.get("params", {})))
