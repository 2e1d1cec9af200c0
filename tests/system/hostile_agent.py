#!/usr/bin/env python3
"""A guest whose root user replaced the agent: it answers what is needed to become ready, then floods whoever
asks for a command or a watch. In the place of mayfly-agent, for tests/system/served.py:

    hostile_agent.py --test-listen PATH

What it floods with is a word of the command's arguments or of the watched path: `output` (text), `crumbs` (output
of one byte a frame), `windows` (acknowledgements of nothing), `unasked` (OKs). `reports` is some programs for whoever
asked for those (TRACE), then the same without an end, there; `written` is the same with files (TRACE_FILES). What is written to a file or a port
is not read, but for the interpreter's port. See docs/agent-protocol.md."""
import select
import socket
import struct
import sys
import threading

HELLO, IDENTITY, METRICS, EXEC, WRITE, WATCH, DIAL = 0x01, 0x02, 0x05, 0x10, 0x33, 0x39, 0x40
TRACE, TRACE_FILES = 0x18, 0x19
INTERPRETER = struct.pack("<H", 49999)
OK, HELLO_REPLY, IDENTITY_REPLY, METRICS_REPLY = 0x80, 0x82, 0x83, 0x84
STARTED, STDOUT, WINDOW, PROGRAM, FILE, WATCH_EVENT = 0x90, 0x91, 0x96, 0x98, 0x99, 0xb1


def frame(kind, payload=b""):
    return struct.pack("<BBHI", kind, 0, 0, len(payload)) + payload


def text(s):
    return struct.pack("<I", len(s)) + s + b"\0"


def program(event, pid=0, parent=0, uid=0, value=0, command=b""):
    return frame(PROGRAM, struct.pack("<6I", event, pid, parent, uid, value, len(command)) + command)


def file(event, pid=0, value=0, path=b""):
    return frame(FILE, struct.pack("<3I", event, pid, value) + text(path))


BEGUN, ENDED, LOST = 1, 2, 3
REPORTS = b"".join([
    program(BEGUN, 41, 40, 1000, command=b"cc\0-c\0x.c\0"), program(ENDED, 41, value=1 << 8), program(ENDED, 42, value=9),
    program(BEGUN, 43, 0, 0xffffffff), program(BEGUN, 44, 43, command=b"\xff\n\x1b[2J\0" + b"x" * 1017),
    program(BEGUN, 45, 43, command=b"w\0" * 512), program(9, 46), program(LOST, value=0xffffffff)])
WRITTEN, NOT_TOLD = 1, 2
FILES = b"".join([
    file(WRITTEN, 41, path=b"/etc/passwd"), file(WRITTEN, 42, path=b"/\xff\n\x1b[2J"), file(WRITTEN, 43, path=b"relative"),
    file(WRITTEN, 44, path=b"/" + b"x" * 4094), file(9, 45, path=b"/a"), file(NOT_TOLD, value=0xffffffff)])
FLOODS = {
    b"output": frame(STDOUT, b"x" * 65536) * 16,
    b"crumbs": frame(STDOUT, b"x") * 100000,
    b"windows": frame(WINDOW, bytes(4)) * 100000,
    b"unasked": frame(OK) * 100000,
    b"changes": frame(WATCH_EVENT, struct.pack("<I", 1) + text(b"name") + bytes(4)) * 30000,
}
REPLIES = {
    HELLO: frame(HELLO_REPLY, struct.pack("<HHHHIQ", 3, 1, 3, 1, 1, 0) + text(b"1") + text(b"") + text(b"ext4") +
                 text(b"")),
    IDENTITY: frame(IDENTITY_REPLY, bytes(4 * 10)),
    METRICS: frame(METRICS_REPLY, struct.pack("<QQ3I12Q", 1, 1, 1, 1, 1, *[0] * 12)),
    EXEC: frame(STARTED, struct.pack("<I", 7)),
}


tracers = {TRACE: [], TRACE_FILES: []}


def report(kind, some, more):
    for s in tracers[kind]:
        s.sendall(some)
        while True:
            s.sendall(more * 1000)


def take(f):
    kind, _, _, n = struct.unpack("<BBHI", f.read(8))
    return kind, f.read(n)


def interpret(s, f):
    """An interpreter whose cell prints 8 MiB of control characters: 48 MiB in an answer."""
    n = 0
    while (line := f.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            n = int(line.split(b":")[1])
    f.read(n)
    s.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    for _ in range(8192):
        s.sendall(b'{"type":"stdout","text":"' + b"\\u0001" * 1024 + b'"}\n')
    s.sendall(b'{"type":"end_of_execution"}\n')


def read_nothing(s):
    """Until the other side has gone."""
    gone = select.poll()
    gone.register(s, 0)
    gone.poll()


def serve(s):
    f = s.makefile("rb")
    try:
        if f.readline() == b"CONNECT 1024\n":
            s.sendall(b"OK 1024\n")
        while True:
            kind, payload = take(f)
            if kind != WRITE:  # answered at its end, which nobody reads
                s.sendall(REPLIES.get(kind, frame(OK)))
            if kind == DIAL and payload[:2] == INTERPRETER:
                interpret(s, f)
                return
            if kind in (DIAL, WRITE):
                read_nothing(s)
                return
            if kind in tracers:
                tracers[kind].append(s)
            if kind == EXEC and b"reports" in payload:
                report(TRACE, REPORTS, program(BEGUN, 1, 1, command=b"flood\0"))
            if kind == EXEC and b"written" in payload:
                report(TRACE_FILES, FILES, file(WRITTEN, 1, path=b"/flood"))
            flood = next((v for k, v in FLOODS.items() if k in payload), None)
            while flood and kind in (EXEC, WATCH):
                s.sendall(flood)
    except (OSError, struct.error):
        pass
    finally:
        f.close()
        s.close()


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen(1024)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
