"""Readers of Python: json, pydantic, Starlette, FastAPI and the MCP SDK. See ../beside.py for the protocol."""
import asyncio
import json
import os
import posixpath
import socket
import sys
import threading
import urllib.parse
from typing import Any, Optional

import uvicorn
from fastapi import FastAPI
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

DIRECTORY = sys.argv[1]

# --- JSON ---


def calls_of(value):
    return [{"tool": m["params"]["name"], "arguments": m["params"].get("arguments")}
            for m in (value if isinstance(value, list) else [value])
            if isinstance(m, dict) and m.get("method") == "tools/call" and isinstance(m.get("params"), dict)
            and isinstance(m["params"].get("name"), str)]


def parsed(data, use):
    """json.loads() of bytes finds UTF-16 and UTF-32 as well."""
    try:
        return use(json.loads(data))
    except (ValueError, RecursionError):
        return None


class Function(BaseModel):
    name: str


class Tool(BaseModel):
    type: Optional[str] = None
    name: Optional[str] = None
    function: Optional[Function] = None


class Model(BaseModel):
    """A request to a model, as servers check it that are made with FastAPI."""
    model: Optional[str] = None
    max_tokens: Optional[int] = None
    max_completion_tokens: Optional[int] = None
    tools: Optional[list[Tool]] = None
    mcp_servers: Optional[list[Any]] = None
    messages: Any = None
    input: Any = None


def model(data):
    try:
        return Model.model_validate_json(data).model_dump(exclude_none=True)
    except ValidationError:
        return None


# --- the MCP SDK ---

ran = {}


class Options(BaseModel):
    task: Optional[str] = None


async def note(name, given, context):
    await asyncio.sleep(0)
    request = context.request_context.request
    ran.setdefault(request.headers.get("x-case", "") if request else "", []).append(
        {"tool": name, "arguments": {k: v for k, v in given.items() if v is not None}})
    return "done"


def add_tool(server, name):
    @server.tool(name=name)
    async def run(context: Context, path: Optional[str] = None, mode: Optional[str] = None, count: Optional[int] = None,
                  opts: Optional[Options] = None) -> str:
        return await note(name, {"path": path, "mode": mode, "count": count,
                                 "opts": opts.model_dump(exclude_none=True) if opts else None}, context)


def mcp_app():
    server = MCPServer("beside")
    for name in ("read_x", "write_note", "drop_db", "read_raw", "write_raw", "drop_raw"):
        add_tool(server, name)
    return server.streamable_http_app(json_response=True, stateless_http=True)


# --- paths ---


def tell(label):
    async def run(request: Request):
        return PlainTextResponse(label)
    return run


def starlette_paths():
    return Starlette(routes=[
        Route("/orders", tell("orders"), methods=["POST"]),
        Route("/orders/{id}", tell("order"), methods=["GET"]),
        Mount("/admin", routes=[Route("/{rest:path}", tell("admin"), methods=["GET", "POST", "PUT", "DELETE"])]),
        Mount("/public", routes=[Route("/{rest:path}", tell("public"), methods=["GET", "POST", "PUT", "DELETE"])]),
        Route("/users/{name}", tell("user"), methods=["GET"]),
        Route("/api/v1/items/{id}/approve", tell("approve"), methods=["POST"]),
        Route("/repos/{owner}/{name}/secret", tell("repo"), methods=["GET"]),
        Mount("/files", StaticFiles(directory=os.path.join(DIRECTORY, "files"))),
    ])


def fastapi_paths():
    app = FastAPI()

    def add(methods, path, label):
        app.add_api_route(path, tell(label), methods=methods.split())

    add("POST", "/orders", "orders")
    add("GET", "/orders/{id}", "order")
    add("GET POST PUT DELETE", "/admin/{rest:path}", "admin")
    add("GET POST PUT DELETE", "/public/{rest:path}", "public")
    add("GET", "/users/{name}", "user")
    add("POST", "/api/v1/items/{id}/approve", "approve")
    add("GET", "/repos/{owner}/{name}/secret", "repo")
    app.mount("/files", StaticFiles(directory=os.path.join(DIRECTORY, "files")))
    return app


# --- queries and forms ---


def queries(data):
    text = data.decode("latin-1")
    return [dict(QueryParams(text)), urllib.parse.parse_qs(text, keep_blank_values=True),
            urllib.parse.parse_qs(text.replace(";", "&"), keep_blank_values=True)]


async def tell_form(request: Request):
    async with request.form() as form:
        return JSONResponse({"names": [name for name, _ in form.multi_items()]})


# --- servers ---


def serve(app, http):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio disables Nagle's for these only
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", http=http, lifespan="on", timeout_keep_alive=600)
    threading.Thread(target=uvicorn.Server(config).run, args=([listener],), daemon=True).start()
    return listener.getsockname()[1]


READERS = {
    "json": lambda data: parsed(data, calls_of),
    "model-json": lambda data: parsed(data, lambda value: value),
    "model-pydantic": model,
    "queries": queries,
    "normal": lambda data: [posixpath.normpath(data.decode())],
}


def main():
    ports = {
        "mcp": serve(mcp_app(), "httptools"),
        "paths-starlette": serve(starlette_paths(), "h11"),
        "paths-fastapi": serve(fastapi_paths(), "httptools"),
        "forms": serve(Starlette(routes=[Route("/{any:path}", tell_form, methods=["POST"])]), "httptools"),
    }
    for line in sys.stdin:
        question = json.loads(line)
        if question["kind"] == "ports":
            told = ports
        elif question["kind"] == "ran":
            told = dict(ran)
            ran.clear()
        else:
            told = [READERS[question["kind"]](bytes.fromhex(item)) for item in question["items"]]
        print(json.dumps(told), flush=True)


main()
