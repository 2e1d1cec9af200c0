"""The official Python SDK, unmodified: every test with its synchronous class and with its asynchronous
one. The environment is that of the programs next to it (harness.mjs)."""
import asyncio
import gzip
import hashlib
import inspect
import json
import os
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
import uuid

import e2b
from e2b import AsyncSandbox, AsyncTemplate, PtySize, Sandbox, SandboxQuery, SandboxState, Template

NATIVE = bool(os.environ.get("SDK_TEST_NATIVE"))
SLOW = 1 if NATIVE else 10
# this machine's own login files may do anything
HOME = {"HOME": "/var/empty"} if NATIVE else {}
TESTS = []
started = []


def test(fn):
    TESTS.append(fn)
    return fn


def test_natively(fn):
    """What microVMs make no difference to, and what would take long in emulated ones."""
    return test(fn) if NATIVE else fn


async def settle(result):
    """What a call of either class returns."""
    return await result if inspect.isawaitable(result) else result


async def rejects(kind, result, check=lambda e: True):
    """result: a call as a function, as the synchronous class raises at once."""
    try:
        value = await settle(result())
    except kind as e:
        assert check(e), repr(e)
        return
    raise AssertionError(f"no {kind.__name__} but {value!r}")


async def until(what, fn, seconds=20 * SLOW):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = await settle(fn())
        if value:
            return value
        await asyncio.sleep(0.02)
    raise AssertionError(f"{what} did not happen in {seconds} s")


class Context:
    """One class under test, a sandbox of it, and an empty directory in that."""

    def __init__(self, cls):
        self.cls, self.is_async = cls, cls is AsyncSandbox
        self.name = "async" if self.is_async else "sync"
        self.dir = f"/tmp/python-{self.name}-{uuid.uuid4().hex}"

    async def create(self, **more):
        envs = {**HOME, **more.pop("envs", {})}
        sandbox = await settle(self.cls.create(timeout=more.pop("timeout", 600), envs=envs, **more))
        started.append(sandbox.sandbox_id)
        return sandbox

    async def open(self):
        self.sandbox = await self.create(envs={"SET": "at create"}, metadata={"python": self.name})
        self.files, self.commands, self.pty = (
            self.sandbox.files, self.sandbox.commands, self.sandbox.pty)
        await settle(self.files.make_dir(self.dir))

    async def run(self, command, **options):
        return await settle(self.commands.run(command, **options))

    async def all(self, **query):
        paginator = self.cls.list(**query)
        found = []
        while paginator.has_next:
            found += await settle(paginator.next_items())
        return found


# --- what failures say: E2B's words ---

@test
async def words_of_failures(c):
    def says(text):
        return lambda e: text in str(e)
    f, d, run = c.files, c.dir, c.commands.run
    await settle(f.write(f"{d}/words", "x"))
    none = f"{d}/none"
    await rejects(e2b.NotFoundException, lambda: f.read(none), says(f"path '{none}' does not exist"))
    await rejects(e2b.InvalidArgumentException, lambda: f.read(d), says(f"path '{d}' is a directory"))
    await rejects(e2b.InvalidArgumentException, lambda: f.write(d, "x"), says(f"path is a directory: {d}"))
    await rejects(e2b.NotFoundException, lambda: f.get_info(none), says(f"file not found: lstat {none}: no such file"))
    await rejects(e2b.NotFoundException, lambda: f.list(none), says(f"path not found: lstat {none}: no such file"))
    await rejects(e2b.InvalidArgumentException, lambda: f.list(f"{d}/words"),
                  says(f"path is not a directory: {d}/words"))
    await rejects(e2b.InvalidArgumentException, lambda: f.make_dir(f"{d}/words"),
                  says(f"path already exists but it is not a directory: {d}/words"))
    await rejects(e2b.NotFoundException, lambda: f.rename(none, f"{d}/to"), says(f"source file not found: rename {none}"))
    await rejects(e2b.AuthenticationException, lambda: f.read("x", user="nobody12"),
                  says("error looking up user 'nobody12': user: unknown user nobody12"))
    await rejects(e2b.AuthenticationException, lambda: run("true", user="nobody12"), says("invalid username: 'nobody12'"))
    await rejects(e2b.InvalidArgumentException, lambda: run("true", cwd=none), says(f"cwd '{none}' does not exist"))
    await rejects(e2b.NotFoundException, lambda: c.commands.connect(999999), says("process with pid 999999 not found"))
    handle = await settle(run("cat", background=True, stdin=False))
    await rejects(e2b.SandboxException, lambda: c.commands.send_stdin(handle.pid, "x"),
                  says("error writing to stdin: stdin not enabled or closed"))


# --- the control API ---

@test
async def create_get_info_list(c):
    info = await settle(c.sandbox.get_info())
    assert info.sandbox_id == c.sandbox.sandbox_id and len(info.template_id) == 20 and info.name == "base"
    assert info.metadata == {"python": c.name} and info.state == SandboxState.RUNNING
    assert info.cpu_count >= 1 and info.memory_mb >= 128
    assert info.end_at > info.started_at
    tag = uuid.uuid4().hex
    made = [await c.create(metadata={"tag": tag, "a b": "c&d=ü"}) for _ in range(3)]
    query = SandboxQuery(metadata={"tag": tag, "a b": "c&d=ü"}, state=[SandboxState.RUNNING])
    listed = await c.all(query=query, limit=2)
    assert [s.sandbox_id for s in listed] == [s.sandbox_id for s in reversed(made)]
    assert await c.all(query=SandboxQuery(metadata={"tag": "none"})) == []
    for sandbox in made:
        assert await settle(sandbox.kill()) is True
    assert await c.all(query=query) == []


@test
async def set_timeout_and_connect(c):
    sandbox = await c.create(timeout=300)
    before = await settle(sandbox.get_info())
    await settle(sandbox.set_timeout(900))
    longer = await settle(sandbox.get_info())
    assert longer.end_at > before.end_at
    again = await settle(c.cls.connect(sandbox.sandbox_id, timeout=30))
    assert (await settle(again.get_info())).end_at == longer.end_at, "connect only extends"
    assert (await settle(again.commands.run("echo again"))).stdout == "again\n"
    await settle(c.cls.set_timeout(sandbox.sandbox_id, 60))
    assert (await settle(again.get_info())).end_at < before.end_at
    await settle(again.kill())
    await rejects(e2b.NotFoundException, lambda: sandbox.set_timeout(60))
    await rejects(e2b.NotFoundException, lambda: c.cls.connect(sandbox.sandbox_id))


@test_natively
async def kill_is_running(c):
    sandbox = await c.create()
    assert await settle(sandbox.is_running()) is True
    assert await settle(c.cls.kill(sandbox.sandbox_id)) is True
    assert await settle(sandbox.kill()) is False
    assert await settle(sandbox.is_running()) is False
    await rejects(e2b.SandboxException, lambda: sandbox.commands.run("true"))
    await rejects(e2b.TimeoutException, lambda: sandbox.files.read("/etc/hostname"))
    await rejects(e2b.NotFoundException, sandbox.get_info)


@test_natively
async def get_metrics(c):
    samples = await until("a sample", c.sandbox.get_metrics)
    assert samples[0].cpu_count >= 1 and samples[0].mem_total > 0 and samples[0].disk_total > 0


@test_natively
async def refusals(c):
    await rejects(e2b.AuthenticationException, lambda: c.cls.create(api_key="e2b_" + "f" * 40))
    await rejects(e2b.SandboxException, lambda: c.cls.create("no-such-template"))
    await rejects(e2b.SandboxException, lambda: c.cls.create(timeout=10**6))
    few = os.environ["E2B_API_KEY_FEW"]
    one = await settle(c.cls.create(api_key=few, envs=HOME))
    try:
        await rejects(e2b.RateLimitException, lambda: c.cls.create(api_key=few))
    finally:
        await settle(one.kill())
    other = os.environ["E2B_API_KEY_OTHER"]
    await rejects(e2b.NotFoundException,
                  lambda: c.cls.connect(c.sandbox.sandbox_id, api_key=other))
    assert await settle(c.cls.kill(c.sandbox.sandbox_id, api_key=other)) is False


@test_natively
async def egress_proxy(c):
    """Its password is never shown, and an update without it clears it."""
    sandbox = await c.create(network={"egress_proxy": {
        "address": "proxy.example.com:1080", "username": "me", "password": "hidden-word"}})
    shown = str((await settle(sandbox.get_info())).network)
    assert "proxy.example.com:1080" in shown and "hidden-word" not in shown, shown
    await settle(sandbox.update_network({}))
    assert "proxy.example.com" not in str((await settle(sandbox.get_info())).network)
    await settle(sandbox.kill())


@test
async def network_and_update_network(c):
    everything = "0.0.0.0/0"
    given = {"allow_out": ["example.com", "*.example.org", "192.0.2.1"], "deny_out": [everything],
             "mask_request_host": "masked"}
    sandbox = await c.create(network=given, allow_internet_access=False)

    async def about():
        info = await settle(sandbox.get_info())
        return info.allow_internet_access, {
            k: v for k, v in info.network.items() if k != "allow_public_traffic"}  # True of its own accord
    assert await about() == (False, given)
    await settle(sandbox.update_network({"deny_out": ["198.51.100.0/24"], "allow_internet_access": True}))
    assert await about() == (True, {"deny_out": ["198.51.100.0/24"], "mask_request_host": "masked"})
    await settle(c.cls.update_network(sandbox.sandbox_id, {"deny_out": lambda ctx: [ctx.all_traffic]}))
    assert (await about())[1] == {"deny_out": [everything], "mask_request_host": "masked"}
    for bad, text in (({"allow_out": ["example.com"]}, "you must include 'ALL_TRAFFIC' in deny out"),
                      ({"deny_out": ["example.com"]}, "invalid denied CIDR example.com"),
                      ({"allow_out": ["10.0.0.1"]}, "private")):
        await rejects(e2b.SandboxException, lambda: sandbox.update_network(bad), lambda e: text in str(e))
        await rejects(e2b.SandboxException, lambda: c.cls.create(network=bad), lambda e: text in str(e))
    await settle(sandbox.kill())
    await rejects(e2b.NotFoundException, lambda: sandbox.update_network({}))


@test_natively
async def get_host_and_traffic_access_token(c):
    closed = await c.create(network={"allow_public_traffic": False})
    host = closed.get_host(3000)
    assert host.startswith(f"3000-{closed.sandbox_id}.")

    def status(token):
        request = urllib.request.Request(os.environ["E2B_SANDBOX_URL"], headers={
            "Host": host, "E2B-Traffic-Access-Token": token})
        try:
            return urllib.request.urlopen(request).status
        except urllib.error.HTTPError as e:
            return e.code
    assert [status(t) for t in ("", "wrong", closed.traffic_access_token)] == [403, 403, 502]
    await settle(closed.kill())


@test
async def template_exists(c):
    if NATIVE:
        return "no templates there"
    template = AsyncTemplate if c.is_async else Template
    assert await settle(template.exists("base")) is True
    assert await settle(template.exists("no-such-template")) is False


# --- commands ---

@test
async def run(c):
    r = await c.run('echo "$SET $MORE"; pwd; id -un; echo err >&2', envs={"MORE": "now"}, cwd="/usr",
                    user="root")
    assert (r.stdout, r.stderr, r.exit_code) == ("at create now\n/usr\nroot\n", "err\n", 0)
    await rejects(e2b.CommandExitException, lambda: c.commands.run("echo so far; exit 3"),
                  lambda e: (e.exit_code, e.stdout) == (3, "so far\n"))
    await rejects(e2b.InvalidArgumentException, lambda: c.commands.run("true", cwd="/no/such"))
    await rejects(e2b.AuthenticationException, lambda: c.commands.run("true", user="nosuchuser"))


@test_natively
async def run_much_output(c):
    n = 100 * 10**6
    seen = []
    r = await c.run(f"head -c {n} /dev/zero | tr '\\0' y", timeout=0,
                    on_stdout=lambda s: seen.append(len(s)))
    assert sum(seen) == n and len(r.stdout) == n and r.stdout.count("y") == n


@test
async def run_time_limit(c):
    mark = f"31.{os.getpid()}"
    await rejects(e2b.TimeoutException, lambda: c.commands.run(f"sleep {mark}", timeout=0.7 * SLOW))
    count = f"pgrep -fc '^sleep {mark}' || true"

    async def gone():
        return (await c.run(count)).stdout == "0\n"
    await until("the end of sleep", gone)


@test
async def background_list_connect_kill(c):
    handle = await settle(c.commands.run("sleep 300", background=True, envs={"K": "v"}, timeout=0))
    listed = [p for p in await settle(c.commands.list()) if p.pid == handle.pid]
    assert listed[0].cmd == "/bin/bash" and listed[0].envs["K"] == "v"
    assert listed[0].args == ["-l", "-c", "sleep 300"]
    await settle(handle.disconnect())
    again = await settle(c.commands.connect(handle.pid, timeout=0))
    assert await settle(again.kill()) is True
    await rejects(e2b.CommandExitException, again.wait, lambda e: e.exit_code == -1)
    assert await settle(c.commands.kill(handle.pid)) is False
    await rejects(e2b.NotFoundException, lambda: c.commands.connect(4000000))


@test
async def standard_input(c):
    handle = await settle(c.commands.run("cat; echo end", background=True, stdin=True))
    await settle(c.commands.send_stdin(handle.pid, "wörld\n"))
    await settle(handle.send_stdin("x" * 200000 + "\n"))
    await settle(c.commands.close_stdin(handle.pid))
    assert (await settle(handle.wait())).stdout == "wörld\n" + "x" * 200000 + "\nend\n"
    assert (await c.run("wc -c")).stdout.strip() == "0"
    await rejects(e2b.NotFoundException, lambda: c.commands.send_stdin(handle.pid, "x"))


@test
async def terminal(c):
    out = []
    show = {"on_data": out.append} if c.is_async else {}
    handle = await settle(c.pty.create(PtySize(rows=24, cols=80), **show))
    await settle(c.pty.send_stdin(handle.pid, b"stty size\n"))
    await settle(c.pty.resize(handle.pid, PtySize(rows=40, cols=100)))
    await settle(c.pty.send_stdin(handle.pid, b"stty size; exit 5\n"))
    wait = handle.wait if c.is_async else lambda: handle.wait(on_pty=out.append)
    await rejects(e2b.CommandExitException, wait, lambda e: e.exit_code == 5)
    assert b"40 100" in b"".join(out), out
    other = await settle(c.pty.create(PtySize(rows=24, cols=80), **show))
    assert await settle(c.pty.kill(other.pid)) is True
    await rejects(e2b.CommandExitException, other.wait, lambda e: e.exit_code == -1)
    assert await settle(c.pty.kill(other.pid)) is False


# --- files ---

@test
async def write_and_read(c):
    info = await settle(c.files.write(f"{c.dir}/new/ü +%1\n", "hällo"))
    assert (info.name, info.path) == ("ü +%1\n", f"{c.dir}/new/ü +%1\n")
    assert await settle(c.files.read(info.path)) == "hällo"
    data = os.urandom(3_000_000)
    await settle(c.files.write(f"{c.dir}/b", data))
    assert bytes(await settle(c.files.read(f"{c.dir}/b", format="bytes"))) == data
    pieces = await settle(c.files.read(f"{c.dir}/b", format="stream"))
    whole = hashlib.sha256()
    if c.is_async:
        async for piece in pieces:
            whole.update(piece)
    else:
        for piece in pieces:
            whole.update(piece)
    assert whole.digest() == hashlib.sha256(data).digest()
    await settle(c.files.write(f"{c.dir}/b", ""))
    assert await settle(c.files.read(f"{c.dir}/b")) == ""


@test_natively
async def write_files(c):
    files = [{"path": f"{c.dir}/many/{i % 7}/f {i}", "data": f"{i}"} for i in range(100)]
    infos = await settle(c.files.write_files(files))
    assert [i.path for i in infos] == [f["path"] for f in files]
    assert await settle(c.files.read(f"{c.dir}/many/1/f 99")) == "99"
    assert await settle(c.files.write_files([])) == []


@test_natively
async def gzip_metadata_user(c):
    info = await settle(c.files.write(f"{c.dir}/z", "z" * 100000, gzip=True, metadata={"K": "v"}, user="root"))
    assert info.metadata == {"k": "v"}
    info = await settle(c.files.get_info(f"{c.dir}/z"))
    assert (info.size, info.metadata, info.owner) == (100000, {"k": "v"}, "root")
    assert await settle(c.files.read(f"{c.dir}/z", gzip=True)) == "z" * 100000


@test_natively
async def directories(c):
    assert await settle(c.files.make_dir(f"{c.dir}/d/e")) is True
    assert await settle(c.files.make_dir(f"{c.dir}/d/e")) is False
    await settle(c.files.write(f"{c.dir}/d/f", "12345"))
    listed = await settle(c.files.list(f"{c.dir}/d", depth=2))
    assert [(e.name, e.type.value) for e in listed] == [("e", "dir"), ("f", "file")]
    info = await settle(c.files.get_info(f"{c.dir}/d/f"))
    assert (info.size, info.permissions, info.mode) == (5, "-rw-r--r--", 0o644)
    moved = await settle(c.files.rename(f"{c.dir}/d/f", f"{c.dir}/d/g"))
    assert moved.path == f"{c.dir}/d/g"
    assert await settle(c.files.exists(f"{c.dir}/d/f")) is False
    await settle(c.files.remove(f"{c.dir}/d"))
    assert await settle(c.files.exists(f"{c.dir}/d")) is False


@test_natively
async def file_errors(c):
    none = f"{c.dir}/none"
    for call in (lambda: c.files.read(none), lambda: c.files.list(none),
                 lambda: c.files.get_info(none), lambda: c.files.rename(none, f"{c.dir}/x")):
        await rejects(e2b.FileNotFoundException, call)
    await rejects(e2b.InvalidArgumentException, lambda: c.files.read(c.dir))
    await rejects(e2b.InvalidArgumentException, lambda: c.files.write(c.dir, "x"))
    await rejects(e2b.AuthenticationException, lambda: c.files.read("/etc/hostname", user="nosuchuser"))


@test_natively
async def a_full_disk(c):
    full = f"{c.dir}/full"
    try:
        await c.run(f"mkdir {full} && mount -t tmpfs -o size=1m none {full}", user="root")
    except e2b.CommandExitException:
        return "no small file system can be mounted"
    try:
        await rejects(e2b.NotEnoughSpaceException, lambda: c.files.write(f"{full}/f", os.urandom(3 * 10**6)))
    finally:
        await c.run(f"umount {full}", user="root")


@test
async def watch_dir(c):
    await settle(c.files.make_dir(f"{c.dir}/w/sub"))
    seen = []
    if c.is_async:
        handle = await c.files.watch_dir(f"{c.dir}/w", seen.append, recursive=True, include_entry=True)
    else:
        handle = c.files.watch_dir(f"{c.dir}/w", recursive=True, include_entry=True)
    await settle(c.files.write(f"{c.dir}/w/sub/a", "1"))
    await settle(c.files.remove(f"{c.dir}/w/sub/a"))

    def found():
        if not c.is_async:
            seen.extend(handle.get_new_events())
        return {"create", "write", "remove"} <= {e.type.value for e in seen if e.name == "sub/a"}
    await until("the events", found)
    assert any(e.entry and e.entry.path == f"{c.dir}/w/sub/a" for e in seen) or seen[0].type.value == "create"
    await settle(handle.stop())
    await rejects(e2b.NotFoundException, lambda: c.files.watch_dir(f"{c.dir}/none", *([print] if c.is_async else [])))


@test_natively
async def signed_urls(c):
    await settle(c.files.write(f"{c.dir}/s 1", "signed"))
    url = c.sandbox.download_url(f"{c.dir}/s 1", use_signature_expiration=600)
    assert urllib.request.urlopen(url).read() == b"signed"
    body = gzip.compress(b"from outside")
    request = urllib.request.Request(
        c.sandbox.upload_url(f"{c.dir}/up", use_signature_expiration=600), data=body, method="POST",
        headers={"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})
    assert urllib.request.urlopen(request).status == 200
    assert await settle(c.files.read(f"{c.dir}/up")) == "from outside"
    try:
        urllib.request.urlopen(c.sandbox.download_url(f"{c.dir}/s 1", use_signature_expiration=-10))
        raise AssertionError("an expired URL works")
    except urllib.error.HTTPError as e:
        assert e.code == 401


@test_natively
async def many_at_the_same_time(c):
    if not c.is_async:
        return "it does one thing at a time"
    results = await asyncio.gather(*(c.commands.run(f"echo {i}") for i in range(40)))
    assert [r.stdout for r in results] == [f"{i}\n" for i in range(40)]


# --- MCP ---

def ask_gateway(url, sandbox, token):
    """What the gateway at the port that the URL names answers to `initialize`."""
    assert url == f"https://{sandbox.get_host(50005)}/mcp", url
    request = urllib.request.Request(
        f"{os.environ['E2B_SANDBOX_URL']}/mcp", method="POST", headers={
            "e2b-sandbox-id": sandbox.sandbox_id, "e2b-sandbox-port": "50005", "Authorization": f"Bearer {token}"},
        data=json.dumps({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["result"]["serverInfo"]["name"]


@test_natively
async def mcp(c):
    """As in mcp.mjs, where MCP's own client uses the gateway."""
    with tempfile.TemporaryDirectory() as home:
        with open(os.path.join(home, ".bash_profile"), "w", encoding="ascii") as f:
            f.write(f"PATH={os.environ['SDK_TEST_MCP']}:$PATH\n")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mcp_server.py")
        envs = {"HOME": home, "MCP_GATEWAY_ROOT": home}
        sandbox = await c.create(template="base", mcp={"one": {"command": "python3", "args": [program, "one"]}}, envs=envs)
        token = await settle(sandbox.get_mcp_token())
        assert ask_gateway(sandbox.get_mcp_url(), sandbox, token) == "mayfly-mcp-gateway"
        await settle(sandbox.kill())
        await no_gateway(c, "exa: this gateway has no catalog", mcp={"exa": {"apiKey": "k"}}, envs=envs)
    await no_gateway(c, "mcp-gateway: command not found", mcp={})
    await rejects(e2b.SandboxException, lambda: c.cls.create(mcp={}), lambda e: "mcp-gateway" in str(e))


async def no_gateway(c, text, **options):
    """It is an error, and no sandbox is left."""
    tag = {"mcp": uuid.uuid4().hex}
    await rejects(e2b.SandboxException, lambda: c.create(template="base", metadata=tag, **options),
                  lambda e: str(e).startswith("Failed to start MCP gateway: ") and text in str(e))
    assert await c.all(query=SandboxQuery(metadata=tag)) == []


async def run_tests(c, only):
    failed = 0
    await c.open()
    for fn in TESTS:
        if only and only not in fn.__name__:
            continue
        name = f"client: {c.name}: {fn.__name__}"
        try:
            skipped = await fn(c)
            print(f"skip - {name}: {skipped}" if skipped else f"ok - {name}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok - {name}\n{traceback.format_exc()}", flush=True)
    await settle(c.files.remove(c.dir))
    await settle(c.sandbox.kill())
    return failed


def main():
    failed = 0
    only = os.environ.get("SDK_TEST_ONLY")
    for cls in (Sandbox, AsyncSandbox):
        failed += asyncio.run(run_tests(Context(cls), only))
    for sandbox in started:
        Sandbox.kill(sandbox)
    return 1 if failed else 0


sys.exit(main())
