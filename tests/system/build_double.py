#!/usr/bin/env python3
"""What stands in for `mayfly template run-build` where no microVM boots: it reads a specification,
does what the start command says, and makes a directory for the template. For a hosted agent `install` stands
for the start command.

    log TEXT        an entry of the log, of step 1 at first
    error TEXT      the same, of the level error
    lines N         so many of them
    step N          entries are of that step from here on
    wait FILE       until there is that file
    fail TEXT       the build fails at step 2
    die             the process ends without a word
    tar FILE        writes the names of an agent's files there
    child           starts a process, whose last argument is the build's id, and which ends with this one
    spec FILE       writes what it was told there
    cold TEXT       no program waits in the snapshot, and why
    need KIND NAME  waits for the template of that runtime (KIND runtime) or of that name (KIND template)
    native          an agent whose version native guests can run: as root, in no directory of its own

The ready command `hold PHASE FILE` stops it before it makes the image (image), between image and template (half), when the
template is there (whole), or when it has said so (told), until there is FILE."""
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tarfile
import time

children = []
cold = {}
native = False
current = "1"

DESCRIPTION = {"format": 1, "kind": "ext4", "kernel_release": "x", "agent_version": "4", "image_digest": "0" * 64, "created": 1,
               "description": "", "cpus": 2, "memory_mb": 512, "disk_mb": 1024, "user": "root", "workdir": "",
               "start_command": "", "ready_command": "", "warm_command": "", "env": []}

PARENT = os.getppid()


def say(**message):
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:  # the daemon was killed
        os._exit(1)


def log(text, step=None, level=1):
    say(log={"level": level, "step": step or current, "message": text})


def obey(spec, word, rest):
    global native, current
    if word == "native":
        native = True
    elif word == "log":
        log(rest)
    elif word == "error":
        log(rest, level=3)
    elif word == "step":
        current = rest
    elif word == "lines":
        for i in range(int(rest)):
            log(f"line {i}")
    elif word == "wait":
        while not os.path.exists(rest):
            if os.getppid() != PARENT or PARENT == 1:  # the daemon was killed
                os._exit(1)
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
    elif word == "cold":
        cold["cold"] = rest
        log(f"not warm: {rest}", level=2)
    elif word == "need":
        say(need=dict([rest.split(" ", 1)]))
        answer = json.loads(sys.stdin.readline())
        if "failed" in answer:
            say(failed={"step": "base", "message": answer["failed"]})
            sys.exit(1)
        log(f"stands on {answer.get('template')}")
    elif word == "spec":
        with open(rest, "w") as f:
            json.dump({**spec, "argv": sys.argv[1:]}, f)


def hold(phase):
    """The ready command `hold PHASE FILE`: until there is that file, if this is the phase."""
    if holds and holds[0] == phase:
        open(holds[1] + ".held", "w").close()
        obey(spec, "wait", holds[1])


if sys.argv[2] == "build":  # of a runtime's template
    os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), "runtime_double.py"), sys.argv)
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the daemon, as the real one
spec = json.loads(sys.stdin.readline())
holds = spec.get("ready", "").split()[1:] if spec.get("ready", "").startswith("hold ") else []
home = os.environ["MAYFLY_HOME"]
agent = spec.get("agent", {})
settings = agent.get("settings", {})
if agent.get("files"):
    with contextlib.suppress(tarfile.TarError, OSError), tarfile.open(agent["files"]) as tar:
        for member in tar.getmembers():
            if os.path.normpath(member.name) == "agent.json":
                settings = {**json.load(tar.extractfile(member)), **settings}
for command in filter(None, (spec.get("start") or settings.get("install", "")).split(";")):
    obey(spec, *(command.strip().split(" ", 1) + [""])[:2])
hold("image")
os.mkdir(f"{home}/images/{spec['build']}") if holds else None
hold("half")
if agent:
    say(agent={"kind": "template" if agent.get("base") else "node", "entry": settings.get("entry", "exec node index.js"),
               "protocol": settings.get("protocol", "stdin"), "dir": "" if native else "/home/user/agent",
               "user": "root" if native else "user", "settings": settings})
    answer = json.loads(sys.stdin.readline() or "null")
    if "answer" in settings.get("env", {}):  # what the snapshot would have
        with open(settings["env"]["answer"], "w") as f:
            json.dump(answer, f)
os.mkdir(f"{home}/templates/{spec['build']}")
if native:
    with open(f"{home}/templates/{spec['build']}/template.json", "w") as f:
        json.dump(DESCRIPTION, f)
hold("whole")
if holds:
    os.rmdir(f"{home}/images/{spec['build']}")
say(end={"diskMB": 4096, **cold})
hold("told")
