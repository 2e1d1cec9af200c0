"""Programs that benchmarks start: where they are, where they listen, what they cost."""
import os
import shutil
import socket


def program(name):
    """Its path; None where it is missing. Servers of Debian are not on every user's PATH."""
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def cpu_ns(pid):
    """Of all threads."""
    total = 0
    for t in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{t}/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
