"""Runs in a sandbox since before it is forked, paused or rolled back, and answers HTTP requests of a few
words: what it has in its memory, in a file in memory and on disk, and what else it can find there."""
import fcntl
import os
import random
import re
import socket
import ssl
import struct
import time

PAGES, PAGE = 256, 4096
FILES = ("/dev/shm/page", "/page")
DISK = "/dev/vda"
FIBMAP = 1
PREFIX = b"secret-of-"
SECRET = re.compile(PREFIX + rb"([0-9a-f]{32})")
WINDOW = 4 << 20

heap = bytearray(PAGES * PAGE)
seeded = random.Random(random.random())


def now(_):
    return str(time.time_ns())


def error(_):
    """(error, uncertainty) of the clock in ns, beside the host's as the kernel reads it from KVM, the most
    certain of a few answers; nothing where there is none."""
    try:
        host = os.open("/dev/ptp0", os.O_RDONLY)
    except OSError:
        return ""
    best = None
    for _ in range(9):
        before = time.time_ns()
        there = time.clock_gettime_ns((~host << 3) | 3)
        after = time.time_ns()
        doubt = (after - before) // 2
        if best is None or doubt < best[1]:
            best = ((before + after) // 2 - there, doubt)
    os.close(host)
    return f"{best[0]} {best[1]}"


def old(_):
    """Seeded before, and the kernel's to a process of before."""
    return f"{seeded.random()} {ssl.RAND_bytes(16).hex()} {os.urandom(16).hex()}"


def write(value):
    page = (PREFIX + value.encode()).ljust(PAGE, b".")
    heap[:] = page * PAGES
    for name in FILES:
        fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)  # the same blocks each time
        os.pwrite(fd, page * PAGES, 0)
        os.fsync(fd)
        os.close(fd)
    return "written"


def secrets(data):
    """As re would find them, but quicker."""
    found, at = set(), data.find(PREFIX)
    while at >= 0:
        if m := SECRET.match(data, at):
            found.add(m.group(1).decode())
        at = data.find(PREFIX, at + 1)
    return found


def read(_):
    """From memory, and the disk's blocks from the disk."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    have = set()
    for data in [bytes(heap)] + [open(name, "rb").read() for name in FILES]:
        found = SECRET.findall(data)
        assert len(found) == PAGES, len(found)
        have |= {m.decode() for m in found}
    return " ".join(sorted(have))


def block(_):
    """Where on the disk the first page of the file is."""
    with open(FILES[1], "rb") as f:
        number = struct.unpack("i", fcntl.ioctl(f, FIBMAP, struct.pack("i", 0)))[0]
        return str(number * os.statvfs(FILES[1]).f_bsize)


def disk(at):
    """The secrets on the raw disk from there on."""
    fd = os.open(DISK, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    found = secrets(os.pread(fd, PAGES * PAGE, int(at)))
    os.close(fd)
    return " ".join(sorted(found))


def segments(core):
    """(offset in the file, bytes) of physical memory: kcore is an ELF file, and where these begin, the
    physical address is known."""
    head = os.pread(core, 64, 0)
    at, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
    for n in range(count):
        kind, _, offset, _, physical, size = struct.unpack_from("<IIQQQQ", os.pread(core, 56, at + 56 * n))
        if kind == 1 and physical < 1 << 40:
            yield offset, size


def scan(_):
    """All secrets in this machine's physical memory."""
    found, core = set(), os.open("/proc/kcore", os.O_RDONLY)
    for offset, size in segments(core):
        for at in range(0, size, WINDOW):
            data = os.pread(core, min(WINDOW, size - at), offset + at)
            found |= secrets(data)
    os.close(core)
    return " ".join(sorted(found))


def main():
    listener = socket.create_server(("127.0.0.1", 7000), backlog=64)
    print("ready", flush=True)
    while True:
        s, _ = listener.accept()
        try:
            words = s.recv(4096).split(b" ")[1].decode().strip("/").split("/")
            verbs = {f.__name__: f for f in (now, error, old, write, read, block, disk, scan)}
            answer = verbs[words[0]](words[-1]).encode()
            s.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                      % (len(answer), answer))
        except Exception as e:  # pylint: disable=broad-except
            answer = repr(e).encode()
            s.sendall(b"HTTP/1.1 500 Failed\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                      % (len(answer), answer))
        s.close()


main()
