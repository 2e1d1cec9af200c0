"""What bench/agents measures of a daemon: crowds of invocations, memory, files."""
import contextlib
import os
import re
import shutil
import time

from agents_client import Invoker, run_all
from figures import heading, show
from processes import cpu_ns
from served import Daemon, ask, eventually, ids, kill, make_home

CROWDS = {1: 300, 20: 20, 100: 6}  # invocations at once: rounds
RUNNING = 20
WAIT_S, STEP_S = 300, 0.05
LIMITS = ("--memory-limit=64G", "--pool-memory=64G", "--cpu-overcommit=1000", "--disk-overcommit=1000")


def kib(path, *fields):
    with open(path) as f:
        text = f.read()
    return sum(int(re.search(rf"^{field}:\s*(\d+) kB", text, re.M)[1]) for field in fields)


def own_kib(pid):
    """Of memory that only this process has."""
    return kib(f"/proc/{pid}/smaps_rollup", "Private_Clean", "Private_Dirty")


class Side:
    """A daemon with a pool of that many VMs of each template that is used."""

    def __init__(self, pool, options=()):
        self.pool, self.daemon = pool, Daemon(make_home("bench-agents."), (*LIMITS, "--pool", str(pool), *options))

    def __enter__(self):
        self.daemon.start()
        self.key = self.daemon.key("test", "--max-sandboxes", "1000", "--max-creates", "1000000")
        return self

    def __exit__(self, *_):
        for sandbox in ids(self.daemon, self.key):
            kill(self.daemon, self.key, sandbox)
        eventually(lambda: not self.pooled() < len(self.daemon.directories()), WAIT_S)
        self.daemon.stop()
        shutil.rmtree(self.daemon.home)

    def pooled(self):
        """How many VMs wait."""
        page = ask(os.path.join(self.daemon.home, "daemon.sock"), "GET", "/metrics", raw=True)[2].decode()
        return sum(float(v) for v in re.findall(r"^mayfly_pool_ready{.*} (\S+)$", page, re.M))

    def rest(self):
        """Waits until the last ones are gone and the pool is full, which begins to fill with the first use."""
        end = time.monotonic() + WAIT_S
        while len(self.daemon.directories()) != self.pool or self.pooled() != self.pool:
            assert time.monotonic() < end, "it does not come to rest"
            time.sleep(STEP_S)

    def waiting_kib(self):
        """Of VMs that wait, each: what only it has."""
        self.rest()
        found = [own_kib(pid) for pid in vmms(self.daemon)]
        each = round(sum(found) / len(found))
        print(f"  each of {len(found)} VMs that wait: {each} KiB", flush=True)
        return {"count": len(found), "private_kib": each}


def vmms(d):
    """The processes of its VMs."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/stat") as f:
                comm, rest = f.read().split(" ", 1)[1].rsplit(") ", 1)
            if comm == "(mayfly-vmm" and int(rest.split()[1]) == d.process.pid:
                yield int(pid)


def started_ns(d, idents):
    marks = ", ".join("?" * len(idents))
    return dict(d.rows(f"SELECT id, started_ns FROM invocations WHERE id IN ({marks})", *idents))


def crowd(side, agent, count, rounds, prompt):
    """Seconds from the request of each of that many until its sandbox ran, its first byte, its end."""
    series = {"running": [], "first": [], "end": [], "cpu": []}
    invokers = [Invoker(side.daemon.port, side.key, agent, prompt) for _ in range(count)]
    for n in range(rounds + 1):
        cpu = cpu_ns(side.daemon.process.pid)
        run_all(invokers)
        side.rest()
        series["cpu"] += [(cpu_ns(side.daemon.process.pid) - cpu) / count / 1e9] * (n > 0)
        assert all(v.body.strip() == prompt.encode() for v in invokers), invokers[0].body
        began = started_ns(side.daemon, [v.id for v in invokers])
        for v in invokers if n else ():  # the first round is a rehearsal
            series["running"].append(began[v.id] / 1e9 - v.sent)
            series["first"].append(v.first)
            series["end"].append(v.end)
    for v in invokers:
        v.s.close()
    return series


def measure_crowds(side, agent, rounds, title, crowds=None):
    result = {}
    for count, usual in (crowds or CROWDS).items():
        if side.pool and count > side.pool:
            continue  # most would be made as without a pool
        series = crowd(side, agent, count, rounds or usual, "hello")
        heading(f"{title}: {count} at once; ms", ("least", "p50", "p90", "p99"))
        result[str(count)] = {"running": show("request to the child running", series["running"]),
                              "first": show("to the first byte of the answer", series["first"]),
                              "end": show("to its end", series["end"]),
                              "cpu": show("the daemon's CPU time, to the sandbox's end", series["cpu"])}
    return result


def measure_running(side, agent, prompt):
    """Of invocations that go on, each: what only it has, and what the host's available memory fell by."""
    side.rest()
    before = kib("/proc/meminfo", "MemAvailable")
    invokers = [Invoker(side.daemon.port, side.key, agent, prompt) for _ in range(RUNNING)]
    for v in invokers:
        v.send()
    for v in invokers:
        while not v.body:
            v.receive()
    private = [own_kib(side.daemon.pid_of(i)) for i in ids(side.daemon, side.key)]
    fell = before - kib("/proc/meminfo", "MemAvailable")
    for v in invokers:
        v.s.close()
    result = {"count": RUNNING, "private_kib": round(sum(private) / RUNNING), "host_kib": round(fell / RUNNING)}
    print(f"\n  each of {RUNNING} running invocations: {result['private_kib']} KiB private, {result['host_kib']} KiB of the "
          "host's available memory", flush=True)
    side.rest()
    return result


def allocated_kib(top):
    return sum(os.lstat(os.path.join(at, name)).st_blocks // 2 for at, _, names in os.walk(top) for name in names)


def measure_version(side, build):
    """Its files, which its invocations map; without a pool no process waits."""
    files = allocated_kib(os.path.join(side.daemon.home, "templates", build))
    print(f"  a warm version: {files} KiB of files, no process", flush=True)
    return {"files_kib": files}
