"""What the tests of states share: sandboxes in microVMs of the template TEST_TEMPLATE (`mini`), what
is asked of them, and a daemon on a file system of few MiB.

A program that imports this runs itself again in a mount namespace of its own, which needs root."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

if "--vm" not in sys.argv:
    sys.argv.append("--vm")
os.environ.setdefault("TEST_TEMPLATE", "mini")
if "STATES_NAMESPACE" not in os.environ:
    os.environ["STATES_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])

import served
from served import (BUILD, Daemon, ask, chosen, copy_templates, create_at, eventually, kill,
                    raise_descriptors, run_tests, settled)

FAULTS = os.path.join(BUILD, "tests/faults")
ROOT = "Authorization: Basic cm9vdDo="  # the user that envd runs commands as
CRASHED = 9  # STORE_EVENT_CRASHED
CLOCK_ERROR_S = 0.01
MIB = 1 << 20
COUNT = "while :; do echo >>/dev/shm/n; sleep 0.2; done"  # in memory
COUNTED = "cat /dev/shm/n 2>/dev/null | wc -l"


def create(d, key, **more):
    """Its envd asks for no token."""
    return create_at("/sandboxes", d, key, {"timeout": 600, **more})


def start(d, sandbox, script, more=()):
    """A shell command of root's, in the template `mini`."""
    return served.start(d, sandbox, script, [ROOT, *more])


def say(d, sandbox, script, more=()):
    """Standard output of a shell command, which must be fine."""
    out, code = served.output(d, sandbox, script, [ROOT, *more])
    assert code == 0, (script, code, out)
    return out.decode().strip()


def post(d, key, sandbox, verb, body=None):
    return ask(d.port, "POST", f"/sandboxes/{sandbox}/{verb}", key, body or {})


def pause(d, key, sandbox, **body):
    status, answer = post(d, key, sandbox, "pause", body)
    assert status == 204, (status, answer)


def connect(d, key, sandbox, **body):
    """The answer of one that was paused."""
    status, answer = ask(d.port, "POST", f"/v2/sandboxes/{sandbox}/connect", key, body)
    assert status == 201 and answer["sandboxID"] == sandbox, (status, answer)
    return answer


def snapshot(d, key, sandbox, **body):
    status, answer = post(d, key, sandbox, "snapshots", body)
    assert status == 201, (status, answer)
    return answer


def fork(d, key, sandbox, count, **body):
    status, answer = post(d, key, sandbox, "fork", {"count": count, "timeout": 600, **body})
    assert status == 201 and len(answer) == count, (status, answer)
    return [entry["sandbox"] for entry in answer]


def about(d, key, sandbox):
    status, answer = ask(d.port, "GET", f"/sandboxes/{sandbox}", key)
    assert status == 200, (status, answer)
    return answer


def state(d, key, sandbox):
    return about(d, key, sandbox)["state"]


def listed(d, key, states):
    return sorted(s["sandboxID"] for s in ask(d.port, "GET", f"/v2/sandboxes?state={states}", key)[1])


def count_in(d, sandbox):
    """A process that counts, in memory; its number."""
    s = start(d, sandbox, COUNT)
    assert eventually(lambda: counted(d, sandbox))
    s.s.close()
    return s.pid


def counted(d, sandbox, more=()):
    return int(say(d, sandbox, COUNTED, more))


def goes_on(d, sandbox, pid, since=0, more=()):
    """The process counts on from there."""
    first = int(say(d, sandbox, f"kill -0 {pid} && {COUNTED}", more))
    assert first >= since, (first, since)
    assert eventually(lambda: counted(d, sandbox, more) > first), first


def right_clock(d, sandbox, more=()):
    """Between the times before and after it was asked for, with 10 ms of error."""
    before = time.time()
    told = say(d, sandbox, "adjtimex", more)
    after, part = time.time(), dict(re.findall(r"time\.tv_(u?sec): +(\d+)", told))
    guest = int(part["sec"]) + int(part["usec"]) / 10 ** 6
    assert before - CLOCK_ERROR_S < guest < after + CLOCK_ERROR_S, (
        guest - before, after - before)


def over(d, key, *sandboxes):
    for sandbox in sandboxes:
        assert kill(d, key, sandbox) == 204, sandbox
    settled(d)


def delete_snapshot(d, key, name):
    return ask(d.port, "DELETE", f"/templates/{name.replace(':', '%3A')}", key)[0]


def restarted(d, fault):
    """With a fault to come, or none; while nothing is under way."""
    assert d.stop() == 0
    set_fault(d, fault)
    d.start()


def set_fault(d, fault):
    d.env.pop("MAYFLY_FAULT", None)
    if fault:
        d.env["MAYFLY_FAULT"] = fault


def works(d, key, sandbox, pid):
    """Nothing is lost, and it can be kept, paused and resumed."""
    goes_on(d, sandbox, pid)
    assert say(d, sandbox, "cat /file") == "kept"
    name = snapshot(d, key, sandbox)["snapshotID"]
    copy = create(d, key, templateID=name)
    goes_on(d, copy, pid)
    assert kill(d, key, copy) == 204 and delete_snapshot(d, key, name) == 204
    pause(d, key, sandbox)
    connect(d, key, sandbox, timeout=3600)
    goes_on(d, sandbox, pid)
    settled(d)


# --- another daemon, on a disk of its own ---

class Elsewhere:
    """A daemon on a file system of few MiB."""

    def __init__(self, mib, env=()):
        self.home = tempfile.mkdtemp(prefix="test-states-disk.")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=755", "tmpfs", self.home],
                       check=True)
        copy_templates(self.home)
        self.daemon = Daemon(self.home)
        self.daemon.env.update(env)

    def __enter__(self):
        self.daemon.start()
        return self.daemon, self.daemon.key("other", "--max-creates", "100000")

    def __exit__(self, *what):
        if self.daemon.process.poll() is None:
            self.daemon.process.kill()
            self.daemon.process.wait()
        for sandbox in self.daemon.directories():  # none, if all is well
            os.kill(self.daemon.pid_of(sandbox), signal.SIGKILL)
        subprocess.run(["umount", "-l", self.home], check=True)
        os.rmdir(self.home)

    def fill(self, but):
        """Leaves that many bytes."""
        room = os.statvfs(self.home)
        with open(f"{self.home}/ballast", "wb") as f:
            os.posix_fallocate(f.fileno(), 0, room.f_bavail * room.f_bsize - but)

    def empty(self):
        os.unlink(f"{self.home}/ballast")


# --- running them ---

def run(name, names, options=("--disk-overcommit", "100", "--memory-limit", "1400M"), templates=()):
    """The tests among a program's names; the exit status."""
    raise_descriptors()
    home = tempfile.mkdtemp(prefix=f"test-{name}.")
    copy_templates(home, templates)
    return run_tests(name, chosen(names), home, options)


def flip(fd):
    """One bit of what there is; its own inverse."""
    size = os.fstat(fd).st_size
    at = min(os.lseek(fd, 0, os.SEEK_DATA) + min(size // 2, 100), size - 1)
    os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 4]), at)


def flip_file(path):
    fd = os.open(path, os.O_RDWR)
    flip(fd)
    os.close(fd)
