"""SDKs of model providers and of MCP for Python, unmodified: the twin of ../sdks/models.mjs. BASE is a server of the
tests that speaks their APIs, behind a sandbox's worker. Prints what each was told, as a line of JSON;
tests/system/test_models compares."""
import asyncio
import json
import os
import socket

import anthropic
import openai
from google import genai
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

BASE = os.environ["BASE"]
SAID = "these are four words"


def all_names_are_this_machine():
    """As the sandbox's resolver would have it."""
    resolve = socket.getaddrinfo

    def resolve_here(host, port, *_, **more):
        return resolve("127.0.0.1", port, type=more.get("type", socket.SOCK_STREAM))

    socket.getaddrinfo = resolve_here


def tell(name, **value):
    print(json.dumps({"name": name, **value}), flush=True)


def ask_anthropic():
    client = anthropic.Anthropic(api_key="none", base_url=BASE, max_retries=0)
    asked = {"model": "claude-1", "max_tokens": 50, "messages": [{"role": "user", "content": SAID}]}
    m = client.messages.create(**asked)
    tell("anthropic", tokensOut=m.usage.output_tokens, tool=m.content[1].name)
    with client.messages.stream(**asked) as stream:
        s = stream.get_final_message()
    tell("anthropic stream", tokensOut=s.usage.output_tokens, tool=s.content[1].name)
    try:
        client.messages.create(**{**asked, "max_tokens": 5000})
    except anthropic.APIStatusError as e:
        tell("anthropic denied", status=e.status_code)


def ask_openai():
    client = openai.OpenAI(api_key="none", base_url=f"{BASE}/v1", max_retries=0)
    asked = {"model": "gpt-5", "messages": [{"role": "user", "content": SAID}]}
    c = client.chat.completions.create(**asked)
    tell("chat", tokensOut=c.usage.completion_tokens, tool=c.choices[0].message.tool_calls[0].function.name)
    parts = client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    tell("chat stream", tokensOut=[p.usage for p in parts if p.usage][-1].completion_tokens)
    r = client.responses.create(model="gpt-5", input=SAID)
    tell("responses", tokensOut=r.usage.output_tokens, tool=r.output[1].name)
    for e in client.responses.create(model="gpt-5", input=SAID, stream=True):
        if e.type == "response.completed":
            tell("responses stream", tokensOut=e.response.usage.output_tokens)


def ask_google():
    client = genai.Client(api_key="none", http_options={"base_url": BASE})
    asked = {"model": "gemini-2", "contents": SAID, "config": {"max_output_tokens": 100}}
    said = client.models.generate_content(**asked).usage_metadata
    tell("google", tokensOut=said.candidates_token_count + said.thoughts_token_count)
    for part in client.models.generate_content_stream(**asked):
        said = part.usage_metadata
    tell("google stream", tokensOut=said.candidates_token_count + said.thoughts_token_count)


async def ask_mcp():
    async with streamable_http_client(f"{BASE}/mcp") as (reads, writes, *_):
        async with ClientSession(reads, writes) as session:
            await session.initialize()
            tell("mcp", tools=[t.name for t in (await session.list_tools()).tools])
            good = await session.call_tool("read_file", {"path": "a"})
            tell("mcp call", text=good.content[0].text)
            try:
                await session.call_tool("drop_all", {})
            except Exception as e:  # pylint: disable=broad-except  # whatever its SDK calls it
                tell("mcp denied", message=str(e))


all_names_are_this_machine()
ask_anthropic()
ask_openai()
ask_google()
asyncio.run(ask_mcp())
