#!/usr/bin/env python3
"""What stands in for `mayfly template build` of a runtime where no microVM boots. It writes how it was started to
HOME/started-NAME, a line each time, does what the lines of HOME/script-NAME say, and makes the template:

    say TEXT        writes a line to standard error
    wait FILE       until there is HOME/FILE
    fail            ends with status 1
    nothing         ends well, without a template
    half            begins the template, as a build that is killed leaves it"""
import json
import os
import sys
import time
from types import SimpleNamespace

from served import MAYFLY, write_template

if sys.argv[2] == "run-build":  # of a client's template: the real one, as far as it comes
    os.execv(MAYFLY, ["mayfly", *sys.argv[1:]])
home, name = os.environ["MAYFLY_HOME"], sys.argv[-1]


def status(word):
    with open("/proc/self/status") as f:
        return next(line.split()[1] for line in f if line.startswith(word + ":"))


def obey(word, rest):
    if word == "say":
        print(rest, file=sys.stderr, flush=True)
    elif word == "wait":
        while not os.path.exists(os.path.join(home, rest)):
            time.sleep(0.02)
    elif word in ("fail", "nothing"):
        sys.exit(word == "fail")
    elif word == "half":
        os.mkdir(f"{home}/templates/.tmp-{name}")


with open(f"{home}/started-{name}", "a") as out:
    out.write(json.dumps({"argv": sys.argv[1:], "pid": os.getpid(), "parent": os.getppid(), "rights": status("CapEff"),
                          "locked": status("NoNewPrivs"), "nice": os.nice(0), "files": len(os.listdir("/proc/self/fd")) - 1}) + "\n")
if os.path.exists(f"{home}/script-{name}"):
    with open(f"{home}/script-{name}") as lines:
        for line in lines.read().splitlines():
            obey(*(line.split(" ", 1) + [""])[:2])
write_template(SimpleNamespace(home=home), 1, ".made")
os.rename(f"{home}/templates/.made", f"{home}/templates/{name}")
