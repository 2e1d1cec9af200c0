"""An agent with two tools, for files. It reads its prompt from standard input and writes what the model says to
standard output as it comes.

ANTHROPIC_API_KEY must be set; ANTHROPIC_BASE_URL and MODEL may be.
"""
import os
import sys
from pathlib import Path

import anthropic

MODEL = os.environ.get("MODEL", "claude-sonnet-5-5")
TURNS_MAX = 20
RESULT_MAX = 20_000  # characters of a tool's result

TEXT = {"type": "string"}
TOOLS = [
    {"name": "read_file", "description": "Returns the text of a file.",
     "input_schema": {"type": "object", "properties": {"path": TEXT}, "required": ["path"]}},
    {"name": "write_file", "description": "Writes a file, with the directories above it.",
     "input_schema": {"type": "object", "properties": {"path": TEXT, "text": TEXT}, "required": ["path", "text"]}},
]


def read_file(path):
    return Path(path).read_text(errors="replace")[:RESULT_MAX]


def write_file(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return f"wrote {len(text)} characters"


def use(call):
    print(f"{call.name} {call.input.get('path')}", file=sys.stderr)
    result = {"type": "tool_result", "tool_use_id": call.id}
    try:
        return {**result, "content": {"read_file": read_file, "write_file": write_file}[call.name](**call.input)}
    except (OSError, KeyError, TypeError, ValueError) as e:
        return {**result, "content": repr(e), "is_error": True}


def main():
    client = anthropic.Anthropic()
    messages = [{"role": "user", "content": sys.stdin.read()}]
    for _ in range(TURNS_MAX):
        with client.messages.stream(model=MODEL, max_tokens=4096, tools=TOOLS, messages=messages) as stream:
            for piece in stream.text_stream:
                print(piece, end="", flush=True)
            answer = stream.get_final_message()
        print(flush=True)
        messages.append({"role": "assistant", "content": answer.content})
        if answer.stop_reason != "tool_use":
            return 0
        calls = [block for block in answer.content if block.type == "tool_use"]
        messages.append({"role": "user", "content": [use(call) for call in calls]})
    print(f"gave up after {TURNS_MAX} turns", file=sys.stderr)
    return 1


sys.exit(main())
