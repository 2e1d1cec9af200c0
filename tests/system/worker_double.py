"""In the place of mayfly-egress (worker_double.c): does what the file `mode` in its directory says, and notes in `notes`
what comes. Descriptor 3 is the egress channel, 4 the daemon's listening socket.

  serve   tells the daemon what it applied, keeps the last of it in `policy-PID`, and notes what each stream says first
  idle    the same for one stream, then says that it is idle and ends
  flows   the same, and for each stream says what the file `say` has: lines for the daemon
  asks    the same as serve; each stream begins with the length (4 bytes) and the text of a question, which the daemon
          is asked, and gets what was decided as a line. A new daemon is asked again. With `times` in it, it is asked
          so often, and nothing is read before the stream says so; it gets all answers, each as a line of JSON. With
          `say` in it, the daemon is told that. With `between` in it, the daemon is asked so often for a connection
          to a sandbox that is not there, and what it answered is counted: a line of JSON
  slow    the same as serve, but applies all but the first policy only when the file `say` is not empty
  refuse  refuses its policy
  stale   says of each policy that it applied the first
  crash   ends at once
  deaf    never reads what it is told
  flood   says lines without end
  line    says a line without end"""
import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import time

home = sys.argv[1]


def note(text):
    with open(os.path.join(home, "notes"), "a") as f:
        f.write(f"{os.getpid()} {text}\n")


with open(os.path.join(home, "mode")) as f:
    mode = f.read().strip()
note(f"start {mode}")
if mode == "crash":
    sys.exit(1)
channel, listener = socket.socket(fileno=3), socket.socket(fileno=4)
listener.setblocking(True)
client = listener.accept()[0]
if mode == "deaf":
    socket.socket().settimeout(None)
    while True:
        os.read(os.pipe()[0], 1)
while mode in ("flood", "line"):
    client.sendall((b'{"flow":{}}\n' if mode == "flood" else b"x" * 12) * 1000)


def take_policy(client):
    data = b""
    while not data.endswith(b"\n"):
        part = client.recv(65536)
        if not part:
            return False
        data += part
    lines = [json.loads(line) for line in data.splitlines()]
    for line in lines:
        if "ask" in line:
            decided(**line["ask"])
    lines = [line for line in lines if "policy" in line]
    if not lines:
        return True
    generation = lines[-1]["policy"]["generation"]
    path = os.path.join(home, f"policy-{os.getpid()}")
    with open(path + ".new", "wb") as f:
        f.write(json.dumps(lines[-1]).encode())
    os.rename(path + ".new", path)
    while mode == "slow" and generation > 1 and not os.path.getsize(os.path.join(home, "say")):
        time.sleep(0.02)
    if mode == "refuse":
        client.sendall(b'{"error":"layers: none"}\n')
        time.sleep(600)
    client.sendall(json.dumps({"applied": 1 if mode == "stale" else generation}).encode() + b"\n")
    note(f"policy {generation}")
    return True


waiting, asked = {}, [0]


def say_asked(client, *ids):
    client.sendall(b"".join(json.dumps({"ask": {"id": i, **waiting[i][1]}}).encode() + b"\n" for i in ids))


def ask_often(client, stream, question, times):
    first, data, answers = asked[0] + 1, b"", []
    asked[0] += times
    for i in range(first, first + times):
        client.sendall(json.dumps({"ask": {"id": i, **question}}).encode() + b"\n")
    stream.recv(1)
    while len(answers) < times:
        *lines, data = (data + client.recv(65536)).split(b"\n")
        answers += [said["ask"] for said in map(json.loads, lines) if "ask" in said]
    stream.sendall(b"".join(json.dumps(answer).encode() + b"\n" for answer in answers))
    stream.close()


def ask_between(client, stream, times):
    data, found = b"", {"denied": 0, "error": 0}
    for i in range(times):
        client.sendall(json.dumps({"between": {"id": i + 1, "to": "nobody", "port": 80}}).encode() + b"\n")
    while sum(found.values()) < times:
        *lines, data = (data + client.recv(65536)).split(b"\n")
        for said in map(json.loads, lines):
            for word in said.get("between", {}).keys() & found.keys():
                found[word] += 1
    stream.sendall(json.dumps(found).encode() + b"\n")
    stream.close()


def take_question(client, stream):
    text = stream.recv(struct.unpack("<I", stream.recv(4, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)
    question = json.loads(text)
    times, say, between = question.pop("times", 0), question.pop("say", None), question.pop("between", 0)
    if between:
        ask_between(client, stream, between)
        return
    if times:
        ask_often(client, stream, question, times)
        return
    if say:
        client.sendall(json.dumps(say).encode() + b"\n")
        stream.close()
        return
    asked[0] += 1
    waiting[asked[0]] = stream, json.loads(text)
    s.register(stream, selectors.EVENT_READ, asked[0])
    say_asked(client, asked[0])


def decided(id, decision, reason="", **_):
    if id not in waiting:
        return
    stream, _ = waiting.pop(id)
    stream.sendall(f"{decision} {reason}\n".encode())
    s.unregister(stream)
    stream.close()


def give_up(client, i):
    stream, _ = waiting.pop(i)
    s.unregister(stream)
    stream.close()
    with contextlib.suppress(OSError):  # the daemon may be gone
        client.sendall(json.dumps({"ask": {"id": i, "end": True}}).encode() + b"\n")


def take_stream(client):
    try:
        data, fds, _, _ = socket.recv_fds(channel, 1, 1)
    except BlockingIOError:
        return
    if not fds:
        note("end")
        sys.exit(0)
    stream = socket.socket(fileno=fds[0])
    stream.setblocking(True)
    if mode == "asks":
        take_question(client, stream)
        return
    note(f"stream {stream.recv(100).decode()}")
    stream.close()
    if mode == "flows":
        with open(os.path.join(home, "say"), "rb") as f:
            client.sendall(f.read())
    if mode == "idle":
        client.sendall(b'{"idle":true}\n')
        sys.exit(0)


def serve_client(client):
    """The first of its lines, and those that follow."""
    if take_policy(client):
        s.register(client, selectors.EVENT_READ)
        say_asked(client, *waiting)
        client.sendall(b'{"ask":{"all":true}}\n')
    else:
        client.close()


s = selectors.DefaultSelector()
s.register(channel, selectors.EVENT_READ)
s.register(listener, selectors.EVENT_READ)
serve_client(client)
while True:
    for key, _ in s.select():
        if key.fileobj is channel:
            take_stream(client)
        elif key.fileobj is listener:
            client = listener.accept()[0]
            serve_client(client)
        elif key.data:
            give_up(client, key.data)
        elif not take_policy(key.fileobj):
            s.unregister(key.fileobj)
            key.fileobj.close()
