"""Templates that the newest Python client builds, lists, tags and uses: natively, with the builder's
double (tests/system/build_double.py), which obeys the start command."""
import os
import sys
import tempfile
import traceback

from e2b import AsyncTemplate, Sandbox, Template
from e2b.exceptions import BuildException

CONTEXT = tempfile.TemporaryDirectory(prefix="sdk-templates-")
SIZES = {"cpu_count": 1, "memory_mb": 512}
OTHER = {"api_key": os.environ["E2B_API_KEY_OTHER"]}


def base():
    return Template(file_context_path=CONTEXT.name).from_template("base")


def template(script="log hello"):
    return base().set_start_cmd(script, "true")


def test_build_and_use():
    with open(os.path.join(CONTEXT.name, "file.txt"), "w") as f:
        f.write("text")
    lines = []
    built = base().copy("file.txt", "/x/").set_start_cmd("log hello", "true")
    info = Template.build(built, "py-web", on_build_logs=lambda e: lines.append(e.message), **SIZES)
    assert "hello" in lines, lines
    assert Template.exists("py-web") and not Template.exists("py-nothing")
    assert not Template.exists("py-web", **OTHER)
    sandbox = Sandbox.create("py-web")
    assert sandbox.get_info().template_id == info.template_id
    sandbox.kill()


def test_plain_tar():
    """The archive without gzip, and forced to come again."""
    info = Template.build(base().copy("file.txt", "/y/", gzip=False, force_upload=True), "py-tar", **SIZES)
    assert info.build_id


def test_failure():
    try:
        Template.build(template("fail no luck"), "py-web", **SIZES)
    except BuildException as e:
        assert "no luck" in str(e), e
    else:
        assert False, "it must fail"
    Sandbox.create("py-web").kill()


def test_background_and_tags():
    info = Template.build_in_background(template("lines 120"), "py-tags:v1", tags=["stable"], **SIZES)
    count = 0
    while Template.get_build_status(info).status.value in ("waiting", "building"):
        pass
    while True:
        page = Template.get_build_status(info, logs_offset=count)
        count += len(page.log_entries)
        if not page.log_entries:
            break
    assert count == 120 and page.status.value == "ready", (count, page)
    Template.assign_tags("py-tags:v1", ["next"])
    assert sorted(t.tag for t in Template.get_tags("py-tags")) == ["next", "stable", "v1"]
    Template.remove_tags("py-tags", ["next", "stable"])
    assert [t.tag for t in Template.get_tags("py-tags")] == ["v1"]
    Sandbox.create("py-tags:v1").kill()


def test_tags_of_snapshots():
    sandbox = Sandbox.create("base")
    one, two = sandbox.create_snapshot(name="py-sn"), sandbox.create_snapshot(name="py-sn:v2")
    sandbox.kill()
    builds = {t.tag: t.build_id for t in Template.get_tags("py-sn")}
    assert set(builds) == {"default", "v2"}, builds
    assert Template.assign_tags("py-sn:v2", ["stable", "next"]).build_id == builds["v2"]
    Template.assign_tags("py-sn", "next")
    Template.remove_tags("py-sn", "v2")
    assert {t.tag: t.build_id for t in Template.get_tags("py-sn")} == {
        "default": builds["default"], "next": builds["default"], "stable": builds["v2"]}
    Sandbox.create("py-sn:next").kill()
    listed = {name for s in Sandbox.list_snapshots(name="py-sn").next_items() for name in s.names}
    assert listed == {"py-sn:default", "py-sn:next", "py-sn:stable"}, listed
    assert Sandbox.delete_snapshot("py-sn:next") and not Template.exists("py-sn")
    assert Sandbox.delete_snapshot("py-sn:stable") and not Sandbox.delete_snapshot(two.snapshot_id)
    assert one.snapshot_id == "py-sn:default"


def test_async():
    import asyncio

    async def run():
        info = await AsyncTemplate.build(template(), "py-async", **SIZES)
        assert await AsyncTemplate.exists("py-async")
        assert [t.build_id for t in await AsyncTemplate.get_tags("py-async")] == [info.build_id]
    asyncio.run(run())


failures = 0
for name, fn in list(globals().items()):
    if not name.startswith("test_") or os.environ.get("SDK_TEST_ONLY", "") not in name:
        continue
    try:
        fn()
        print(f"ok - templates: {name[5:]}", flush=True)
    except Exception:  # pylint: disable=broad-except
        failures += 1
        print(f"not ok - templates: {name[5:]}\n{traceback.format_exc()}", flush=True)
CONTEXT.cleanup()
sys.exit(failures > 0)
