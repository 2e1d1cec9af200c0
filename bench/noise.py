"""Bare guests (tests/guests/agent.c) that do nothing but harm, for benchmarks that import tests/system/served.py."""
import threading
import time

from served import Stream, ask, create_open, kill, settled

NOISES = ("spin", "memory", "console", "agent", "vsock", "disk", "discard", "snapshots")
OPTIONS = ("--cpu-overcommit=1000", "--memory-limit=64G", "--disk-overcommit=1000", "--max-timeout=0")


class Noise:
    """So many sandboxes that make it, while the block runs."""

    def __init__(self, d, key, name, count):
        self.d, self.key, self.name, self.count, self.over = d, key, name, count, False

    def __enter__(self):
        self.sandboxes = [create_open(self.d, self.key, timeout=86400) for _ in range(self.count)]
        work = self.snapshot if self.name == "snapshots" else self.read
        self.threads = [threading.Thread(target=work, args=(s,), daemon=True) for s in self.sandboxes]
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over = True
        for sandbox in self.sandboxes:
            kill(self.d, self.key, sandbox)
        for t in self.threads:
            t.join(2)  # one that waits for an answer ends with this program
        settled(self.d)

    def read(self, sandbox):
        """The noisy command's output, as fast as it comes, and once more when it ends."""
        while not self.over:
            try:
                s = Stream(self.d, sandbox, "process.Process/Start",
                           {"process": {"cmd": "/bin/sh", "args": ["-c", f"make noise: {self.name}"]}})
                while s.more():
                    s.data = b""
                s.s.close()
            except OSError:
                pass
            time.sleep(0.05)

    def snapshot(self, sandbox):
        while not self.over:
            status, answer = ask(self.d.port, "POST", f"/sandboxes/{sandbox}/snapshots", self.key, {})
            if status == 201:
                ask(self.d.port, "DELETE", f"/templates/{answer['snapshotID']}", self.key)
            else:
                time.sleep(0.005)
