#!/usr/bin/env python3
"""What stands in for `mayfly template run-build` where no microVM boots: it reads a specification,
does what the start command says, and makes a directory for the template. For a hosted agent `install` stands
for the start command.

    log TEXT        an entry of the log, of step 1
    lines N         so many of them
    wait FILE       until there is that file
    fail TEXT       the build fails at step 2
    die             the process ends without a word
    tar FILE        writes the names of an agent's files there
    child           starts a process, whose last argument is the build's id, and which ends with this one
    spec FILE       writes what it was told there"""
import contextlib
import json
import os
import subprocess
import sys
import tarfile
import time

children = []


def say(**message):
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:  # the daemon was killed
        os._exit(1)


def log(text, step="1", level=1):
    say(log={"level": level, "step": step, "message": text})


def obey(spec, word, rest):
    if word == "log":
        log(rest)
    elif word == "lines":
        for i in range(int(rest)):
            log(f"line {i}")
    elif word == "wait":
        while not os.path.exists(rest):
            time.sleep(0.02)
    elif word == "fail":
        say(failed={"step": "2", "message": rest})
        sys.exit(1)
    elif word == "child":
        children.append(subprocess.Popen(["sh", "-c", "while [ -d /proc/$PPID ]; do sleep 0.1; done", spec["build"]]))
    elif word == "die":
        os._exit(3)
    elif word == "tar":
        with tarfile.open(spec["agent"]["files"]) as tar, open(rest, "w") as f:
            json.dump(tar.getnames(), f)
    elif word == "spec":
        with open(rest, "w") as f:
            json.dump({**spec, "argv": sys.argv[1:]}, f)


spec = json.load(sys.stdin)
home = os.environ["MAYFLY_HOME"]
agent = spec.get("agent", {})
settings = agent.get("settings", {})
for command in filter(None, (spec.get("start") or settings.get("install", "")).split(";")):
    obey(spec, *(command.strip().split(" ", 1) + [""])[:2])
os.mkdir(f"{home}/templates/{spec['build']}")
if agent:
    with tarfile.open(agent["files"]) if agent.get("files") else contextlib.nullcontext() as tar:
        names = tar.getnames() if tar else []
    if "agent.json" in names:
        with tarfile.open(agent["files"]) as tar:
            settings = {**json.load(tar.extractfile("agent.json")), **settings}
    say(agent={"kind": "template" if agent.get("base") else "node", "entry": settings.get("entry", "exec node index.js"),
               "protocol": settings.get("protocol", "stdin"), "dir": "/home/user/agent", "user": "user",
               "settings": settings})
say(end={"diskMB": 4096})
