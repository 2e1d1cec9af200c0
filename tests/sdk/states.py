"""Pauses, snapshots and forks through the official Python classes, unmodified: what goes on, what is kept,
and their own exceptions and models."""
import asyncio
import sys
import traceback

from e2b import AsyncSandbox, Sandbox, SandboxException

TESTS = []
LIMIT_S = 120  # of a request, on an emulated host


def test(fn):
    TESTS.append(fn)
    return fn


def out(sandbox, command):
    return sandbox.commands.run(command, request_timeout=LIMIT_S).stdout.strip()


def create(template=None, **more):
    return Sandbox.create(template, timeout=600, request_timeout=LIMIT_S, **more)


@test
def pause_and_connect(sandbox):
    process = sandbox.commands.run("sleep 600", background=True, timeout=0)
    assert sandbox.pause(request_timeout=LIMIT_S) is True
    assert sandbox.pause(request_timeout=LIMIT_S) is False
    assert Sandbox.get_info(sandbox.sandbox_id).state.value == "paused"
    same = Sandbox.connect(sandbox.sandbox_id, timeout=600, request_timeout=LIMIT_S)
    assert same.files.read("file") == "kept" and out(same, "echo $COLOUR") == "red"
    assert process.pid in [p.pid for p in same.commands.list()]
    assert same.get_info().metadata == {"a": "b"}


@test
def pause_without_memory(sandbox):
    process = sandbox.commands.run("sleep 600", background=True, timeout=0)
    assert Sandbox.pause(sandbox.sandbox_id, keep_memory=False, request_timeout=LIMIT_S) is True
    same = Sandbox.connect(sandbox.sandbox_id, timeout=600, request_timeout=LIMIT_S)
    assert same.files.read("file") == "kept"
    assert process.pid not in [p.pid for p in same.commands.list()]


@test
def snapshots(sandbox):
    snapshot = sandbox.create_snapshot(name="of-python", request_timeout=LIMIT_S)
    assert any("of-python" in name for name in snapshot.names), snapshot
    sandbox.files.write("file", "changed")
    listed = sandbox.list_snapshots().next_items()
    assert [s.snapshot_id for s in listed] == [snapshot.snapshot_id], listed
    other = create("of-python")
    assert other.files.read("file") == "kept"
    other.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    try:
        create(snapshot.snapshot_id)
        raise AssertionError("of a snapshot that was deleted")
    except SandboxException as e:  # create knows no other
        assert str(e).startswith("404"), e


@test
def forks(sandbox):
    children = sandbox.fork(count=2, timeout=600, request_timeout=LIMIT_S)
    assert all(isinstance(child, Sandbox) for child in children), children
    family = [sandbox, *children]
    assert len({out(one, "cat /proc/sys/kernel/random/uuid") for one in family}) == 3
    children[0].files.write("file", "changed")
    assert [one.files.read("file") for one in family] == ["kept", "changed", "kept"]
    for child in children:
        assert child.kill()


@test
def asynchronous(sandbox):
    async def check():
        same = await AsyncSandbox.connect(sandbox.sandbox_id, timeout=600)
        assert await same.pause(request_timeout=LIMIT_S) is True
        same = await AsyncSandbox.connect(sandbox.sandbox_id, timeout=600, request_timeout=LIMIT_S)
        [child] = await same.fork(count=1, timeout=600, request_timeout=LIMIT_S)
        assert await child.files.read("file") == "kept"
        assert await child.kill()

    asyncio.run(check())


def main():
    status = 0
    for fn in TESTS:
        name = f"states (Python): {fn.__name__.replace('_', ' ')}"
        sandbox = create(metadata={"a": "b"}, envs={"COLOUR": "red"})
        try:
            sandbox.files.write("file", "kept")
            fn(sandbox)
            print(f"ok - {name}", flush=True)
        except Exception:
            status = 1
            print(f"not ok - {name}\n{traceback.format_exc()}", flush=True)
        finally:
            sandbox.kill()
    return status


if __name__ == "__main__":
    sys.exit(main())
