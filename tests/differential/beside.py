"""What the programs of this directory share. Each sets our reading of a request beside that of servers and libraries,
with inputs that a generator makes from a seed. Our reading is the verdict of the rules (judge.c). A difference is an
input that our rules allow, and that a server takes for something which they would not.

  tests/differential/test_NAME [--seconds N] [--seed N] [CASE...]

Packages come once from their registries, as node/package-lock.json, python/requirements.txt and go/*.sum pin them. What
cannot be had is skipped with the reason. A program takes about a minute, five with TEST_THOROUGH.

The readers of a language are one process (node/readers.mjs, python/readers.py, go/main.go). It reads questions as lines
of JSON, {"kind": KIND, "items": [HEX, ...]}, and answers each with a list: what each item is for it, null where it
refuses it. {"kind": "ports"} is answered with the ports of its servers on the loopback interface."""
import contextlib
import fcntl
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests", "system"))

import packages  # noqa: E402

BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
ROOM = os.path.join(BUILD, "differential")
SHOWN = 10  # differences of a case that are printed
TRIES = 3000  # of the minimiser
BATCH = 200
ANSWER_S = 60
CASES = []


class Skip(Exception):
    pass


def case(fn):
    """Marks a case: a function of a Run, which it feeds until its time is over."""
    CASES.append(fn)
    return fn


# --- processes ---


class Process:
    """A program that answers each line of JSON with one."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)

    def ask(self, question):
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended: {self.process.wait()}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()


class Judge(Process):
    """Our rules. policies: documents."""

    def __init__(self, policies):
        super().__init__([os.path.join(BUILD, "tests", "differential", "policy-judge")])
        wrong = self.ask({"policies": policies})
        assert wrong is True, wrong

    def judge(self, requests):
        """requests: (method, target, headers, body). For each, whether each policy allows it."""
        cases = [[m, target.hex(), headers, body.hex()] for m, target, headers, body in requests]
        return [[verdict[0] == "allow" for verdict in told] for told in self.ask({"cases": cases})]


class Connection:
    """Requests over one connection, byte by byte as given; a new one when the server has closed it."""

    def __init__(self, port):
        self.port, self.socket = port, None

    def send(self, method, target, headers, body):
        head = [b"%s %s HTTP/1.1" % (method.encode(), target), b"Host: localhost:%d" % self.port]
        head += [f"{name}: {value}".encode("latin-1") for name, value in headers]
        if body or method in ("POST", "PUT", "PATCH"):
            head.append(b"Content-Length: %d" % len(body))
        if not self.socket:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        self.socket.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        response = http.client.HTTPResponse(self.socket, method=method)
        response.begin()
        told = response.status, response.read()
        if response.will_close:
            self.close()
        return told

    def ask(self, method, target, headers=(), body=b""):
        """Status and body of the answer. A server that has just closed the connection is asked once more."""
        for last in (False, True):
            try:
                return self.send(method, target, headers, body)
            except (OSError, http.client.HTTPException):
                self.close()
                if last:
                    return 0, b""
        return 0, b""

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None


# --- what the languages' readers need ---


def make_files():
    """Files for servers to serve, whose contents say what they are."""
    for name in ("secret", "open"):
        path = os.path.join(ROOM, "served", "files", name)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "a.txt"), "w") as f:
            f.write("secret file" if name == "secret" else "open file")
    return os.path.join(ROOM, "served")


def need(program):
    if not shutil.which(program):
        raise Skip(f"{program} is not installed")


def node_command():
    need("node")
    need("npm")
    there = os.path.join(ROOM, "node")
    return ["node", os.path.join(there, "readers.mjs")], packages.install_npm(os.path.join(HERE, "node"), there)


def python_command():
    there = os.path.join(ROOM, "python")
    why = packages.install_python(os.path.join(HERE, "python"), there)
    return [os.path.join(there, "venv", "bin", "python"), os.path.join(there, "readers.py")], why


def go_command(modules):
    need("go")
    program = os.path.join(ROOM, f"go-{modules}")
    command = ["go", "build", "-modfile", f"{modules}.mod", "-o", program, "."]
    r = subprocess.run(command, cwd=os.path.join(HERE, "go"), capture_output=True, text=True, check=False,
                       env={**os.environ, "GOTOOLCHAIN": "local"})
    return [program], f"go build: {r.stderr.strip().splitlines()[-1:]}" if r.returncode else None


LANGUAGES = {
    "node": node_command,
    "python": python_command,
    "go": lambda: go_command("go"),
    "go older": lambda: go_command("older"),
}
started = {}  # processes, or why there is none


def start(language):
    os.makedirs(ROOM, exist_ok=True)
    with open(os.path.join(ROOM, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # programs of this directory run side by side
        command, why = LANGUAGES[language]()
        directory = make_files()
    if why:
        raise Skip(why)
    return Process(command + [directory], stderr=subprocess.DEVNULL)


def reader(language):
    """The process of a language's readers; Skip where it cannot be had."""
    if language not in started:
        try:
            started[language] = start(language)
        except Skip as why:
            started[language] = why
    if isinstance(started[language], Skip):
        raise started[language]
    return started[language]


def ask_kind(language, kind):
    """What reads a list of bytes with the readers of this kind."""
    process = reader(language)
    return lambda items: process.ask({"kind": kind, "items": [item.hex() for item in items]})


def connection(language, server):
    return Connection(reader(language).ask({"kind": "ports"})[server])


# --- runs ---


class Run:
    """One case: its random numbers, its time, and the differences that it found."""

    def __init__(self, name, seed, seconds):
        self.random = random.Random(f"{name} {seed}")
        self.seconds, self.end = seconds, None
        self.count = self.allowed = self.read = 0
        self.found = {}  # inputs by what they are alike in

    def feed(self, make, compare):
        """make(random): an input. compare(inputs): for each, (allowed, read, [why, ...])."""
        self.end = time.monotonic() + self.seconds
        while time.monotonic() < self.end:
            inputs = [make(self.random) for _ in range(BATCH)]
            for given, told in zip(inputs, compare(inputs)):
                self.take(given, told, compare)

    def take(self, given, told, compare):
        allowed, read, reasons = told
        self.count += 1
        self.allowed += bool(allowed)
        self.read += bool(read)
        for why in reasons:
            if why not in self.found:
                self.found[why] = minimised(given, why, compare)


def shorter(given, size):
    """Inputs without a piece of this size. The bytes of a request are its last member."""
    text = given[-1]
    return [(*given[:-1], text[:at] + text[at + size:]) for at in range(0, len(text), size)]


def minimised(given, why, compare):
    """The input without what the difference does not need."""
    tries, size = TRIES, max(len(given[-1]) // 2, 1)
    while size and tries > 0:
        fewer = shorter(given, size)
        still = [g for g, told in zip(fewer, compare(fewer)) if why in told[2]]
        tries -= len(fewer)
        if still:
            given = still[-1]
        else:
            size //= 2
    return given


def run_case(fn, seed, seconds):
    run = Run(fn.__name__, seed, seconds)
    try:
        fn(run)
    except Skip as why:
        print(f"skip - {fn.__name__}: {why}", flush=True)
        return 0
    except Exception:  # a case that breaks shows nothing
        traceback.print_exc(file=sys.stdout)
        print(f"not ok - {fn.__name__}: it broke", flush=True)
        return 1
    if not run.read:
        run.found["it reads nothing"] = ""
    for why, given in list(run.found.items())[:SHOWN]:
        print(f"# {why}: {given}")
    print(f"{'not ok' if run.found else 'ok'} - {fn.__name__}: {run.count} inputs of seed {seed}, "
          f"{run.read} that it reads, {run.allowed} allowed, {len(run.found)} kinds of differences", flush=True)
    return len(run.found)


def option(arguments, name, default):
    if name not in arguments:
        return default
    at = arguments.index(name)
    value = int(arguments[at + 1])
    del arguments[at:at + 2]
    return value


def main():
    arguments = sys.argv[1:]
    seconds = option(arguments, "--seconds", 300 if os.environ.get("TEST_THOROUGH") else 60)
    seed = option(arguments, "--seed", 1)
    cases = [fn for fn in CASES if not arguments or fn.__name__ in arguments]
    if len(cases) < len(arguments):
        print(f"cases: {' '.join(fn.__name__ for fn in CASES)}", file=sys.stderr)
        return 2
    try:
        return 1 if sum([run_case(fn, seed, seconds / len(cases)) for fn in cases]) else 0
    finally:
        for process in started.values():
            if isinstance(process, Process):
                process.end()
