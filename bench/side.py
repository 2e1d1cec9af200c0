"""A daemon of real microVMs, with a pool or without one, that benchmarks make sandboxes at."""
import json
import os
import re
import shutil
import time

from load_client import Run, run_request
from served import Client, Daemon, ask, ids, kill, make_home

BURST, WAIT_S, STEP_S = 4, 300, 0.2
ROOT = "Authorization: Basic cm9vdDo="


def operator(d):
    return os.path.join(d.home, "daemon.sock")


def ready(d):
    """How many VMs wait."""
    page = ask(operator(d), "GET", "/metrics", raw=True)[2].decode()
    return sum(float(v) for v in re.findall(r"^mayfly_pool_ready{.*} (\S+)$", page, re.M))


def claims(d):
    page = ask(operator(d), "GET", "/metrics", raw=True)[2].decode()
    return sum(float(v) for v in re.findall(r"^mayfly_pool_claims_total{.*} (\S+)$", page, re.M))


class Side:
    """A daemon with a pool of that many VMs."""

    def __init__(self, template, count):
        self.daemon = Daemon(make_home("bench-pool."), (
            "--memory-limit=64G", "--pool-memory=64G", "--cpu-overcommit=1000", "--disk-overcommit=1000",
            "--pool", f"{template}={count}"))
        self.template, self.count = template, count

    def __enter__(self):
        self.daemon.start()
        self.key = self.daemon.key("bench", "--max-sandboxes", "1000", "--max-creates", "100000")
        body = json.dumps({"templateID": self.template, "timeout": 3600})
        self.text = (f"POST /sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: {self.key}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}")
        self.clients = [Client(self.daemon.port) for _ in range(BURST)]
        return self

    def __exit__(self, *_):
        self.clear()
        self.daemon.stop()
        shutil.rmtree(self.daemon.home)

    def full(self):
        """Waits until nothing is under way any more."""
        end = time.monotonic() + WAIT_S
        while ready(self.daemon) != self.count or (
                len(self.daemon.directories()) != self.count + len(ids(self.daemon, self.key))):
            assert time.monotonic() < end, "it does not come to rest"
            time.sleep(STEP_S)  # seldom: looking costs, too

    def take(self, client):
        status, _, answer = client.answer()
        assert status == 201, (status, answer)
        return json.loads(answer)["sandboxID"]

    def burst(self, count):
        for c in self.clients[:count]:
            c.send(self.text)
        return [self.take(c) for c in self.clients[:count]]

    def use(self):
        """A sandbox that runs a command."""
        self.command(self.burst(1)[0], ["true"])

    def command(self, sandbox, argv):
        text = run_request(sandbox, argv, {}).replace(b"\r\n\r\n", f"\r\n{ROOT}\r\n\r\n".encode(), 1)
        run = Run(self.daemon.port, text)
        run.run()
        run.s.close()
        assert run.exit == 0, run.exit

    def clear(self):
        for sandbox in ids(self.daemon, self.key):
            kill(self.daemon, self.key, sandbox)
        self.full()
