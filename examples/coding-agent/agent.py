"""An agent that changes a program: it clones a repository, edits it until its tests pass, and prints the difference.

Its prompt is the address of a repository on the first line, and what to do on the others. What it does on the way goes
to standard error. ANTHROPIC_API_KEY must be set; ANTHROPIC_BASE_URL and MODEL may be.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anthropic

MODEL = os.environ.get("MODEL", "claude-sonnet-5-5")
TURNS_MAX = 50
RESULT_MAX = 20_000  # characters of a tool's result
COMMAND_S = 300

SYSTEM = "You change the program in the current directory. Run its tests before you say that you are done."
TEXT = {"type": "string"}
TOOLS = [
    {"name": "bash", "description": "Runs a command and returns what it prints and its exit status.",
     "input_schema": {"type": "object", "properties": {"command": TEXT}, "required": ["command"]}},
    {"name": "edit", "description": "Replaces a text in a file. The text must be there exactly once.",
     "input_schema": {"type": "object", "properties": {"path": TEXT, "old": TEXT, "new": TEXT},
                      "required": ["path", "old", "new"]}},
]


class Repository:
    def __init__(self, address, directory):
        self.directory = Path(directory)
        subprocess.run(["git", "clone", "--quiet", "--", address, directory], check=True)

    def bash(self, command):
        r = subprocess.run(["bash", "-c", command], cwd=self.directory, stdin=subprocess.DEVNULL, text=True,
                           errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_S)
        return f"{r.stdout[-RESULT_MAX:]}\nexit status: {r.returncode}"

    def edit(self, path, old, new):
        file = self.directory / path
        text = file.read_text()
        if text.count(old) != 1:
            raise ValueError(f"the text is there {text.count(old)} times")
        file.write_text(text.replace(old, new))
        return "done"

    def difference(self):
        subprocess.run(["git", "add", "--all"], cwd=self.directory, check=True)
        return subprocess.run(["git", "diff", "--cached"], cwd=self.directory, check=True, text=True, errors="replace",
                              stdout=subprocess.PIPE).stdout


def use(repository, call):
    print(f"{call.name} {call.input.get('command') or call.input.get('path')}", file=sys.stderr)
    result = {"type": "tool_result", "tool_use_id": call.id}
    try:
        return {**result, "content": {"bash": repository.bash, "edit": repository.edit}[call.name](**call.input)}
    except (OSError, KeyError, TypeError, ValueError, subprocess.TimeoutExpired) as e:
        return {**result, "content": repr(e), "is_error": True}


def work(client, repository, task):
    """Whether the model said that it is done."""
    messages = [{"role": "user", "content": task}]
    for _ in range(TURNS_MAX):
        answer = client.messages.create(model=MODEL, max_tokens=8192, system=SYSTEM, tools=TOOLS, messages=messages)
        messages.append({"role": "assistant", "content": answer.content})
        for block in answer.content:
            if block.type == "text":
                print(block.text, file=sys.stderr)
        if answer.stop_reason != "tool_use":
            return True
        calls = [block for block in answer.content if block.type == "tool_use"]
        messages.append({"role": "user", "content": [use(repository, call) for call in calls]})
    print(f"gave up after {TURNS_MAX} turns", file=sys.stderr)
    return False


def main():
    client = anthropic.Anthropic()
    address, _, task = sys.stdin.read().partition("\n")
    if not task.strip():
        sys.exit("expected the address of a repository, and on the next lines what to do")
    with tempfile.TemporaryDirectory() as directory:
        repository = Repository(address.strip(), directory)
        done = work(client, repository, task.strip())
        print(repository.difference(), end="")
    return 0 if done else 1


sys.exit(main())
