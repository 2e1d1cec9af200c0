"""The part of bench/agents with microVMs: an agent in Node.js that has loaded a model's SDK before it reads its prompt. It is
deployed, then deployed again with only its code changed, and invoked, beside a container of the same program."""
import base64
import contextlib
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import time
from urllib.parse import quote

from agents_figures import Side, measure_crowds, measure_running, measure_version
from figures import heading, show, timed
from served import ask, eventually

MODULE = "@anthropic-ai/sdk"
CODE = f"""// %s
import Anthropic from "{MODULE}";
import {{ text }} from "node:stream/consumers";

new Anthropic({{ apiKey: "none" }});
const prompt = await text(process.stdin);
process.stdout.write(prompt === "stay" ? "here" : prompt);
if (prompt === "stay") setInterval(() => {{}}, 1000);
"""
# npm installs the modules from archives in `packages`: what it costs to fetch them from a registry is not measured.
DOCKERFILE = """FROM node-20
WORKDIR /home/user/agent
COPY package.json package-lock.json ./
COPY packages packages
RUN npm ci --offline --no-audit --no-fund
COPY agent.js .
CMD ["node", "agent.js"]
"""
AGENT, MEMORY_MB, BUILD_S = "bench", 512, 1800
REDEPLOYS = 5
CROWDS = {1: 20, 20: 3, 100: 1}
CONTAINERS = {1: 20, 20: 3}


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def packed(path):
    """A module as npm's registries have it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.add(path, "package")
    return out.getvalue()


def packages(program):
    """What npm installs: archives by name, and the lock that names them."""
    with open(os.path.join(program, "package-lock.json")) as f:
        lock = json.load(f)
    found = {}
    for where, module in lock["packages"].items():
        if where:
            data = packed(os.path.join(program, where))
            name = f"packages/{len(found)}.tgz"
            found[name] = data
            module.update(resolved=f"file:{name}",
                          integrity="sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode())
    with open(os.path.join(program, "package.json"), "rb") as f:
        return {**found, "package-lock.json": json.dumps(lock).encode(), "package.json": f.read()}


def archive(files, code):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in {**files, "Dockerfile": DOCKERFILE.encode(), "agent.js": code.encode()}.items():
            add(tar, name, data)
    return out.getvalue()


def deploy(side, data):
    """The version when it is ready."""
    settings = quote(json.dumps({"cpus": 1, "memory": MEMORY_MB, "concurrency": 1024}))
    status, v = ask(side.daemon.port, "PUT", f"/agents/{AGENT}?settings={settings}", side.key, data)
    assert status == 202, v
    path = f"/agents/{AGENT}/versions/{v['version']}"
    assert eventually(lambda: ask(side.daemon.port, "GET", path, side.key)[1]["state"] != "building", BUILD_S)
    v = ask(side.daemon.port, "GET", path, side.key)[1]
    log = ask(side.daemon.port, "GET", path + "/logs?limit=1000", side.key)[1]["logs"]
    assert v["state"] == "ready" and not any("not warm" in line["message"] for line in log), (v, log[-5:])
    return v


def measure_deploy(side, program):
    files, made = packages(program), []
    first, *others = (archive(files, CODE % n) for n in range(1 + REDEPLOYS))
    heading("deploy of an agent in Node.js; ms", ("least", "p50", "p90", "p99"))
    result = {"cold": show("cold", [timed(lambda: made.append(deploy(side, first)))]),
              "code": show("with only its code changed",
                           [timed(lambda data=data: made.append(deploy(side, data))) for data in others])}
    return made[-1], result


# --- the same program in a container ---

class Bundle:
    """A container with this machine's /usr and /etc, read-only, and the program in a directory of its own."""

    def __init__(self, runtime, node, program):
        self.runtime, self.dir, self.count = runtime, tempfile.mkdtemp(prefix="bundle."), 0
        for name in ("usr", "etc", "proc", "dev", "tmp", "agent", "node"):
            os.makedirs(os.path.join(self.dir, "rootfs", name))
        for name in ("bin", "lib", "lib64"):
            os.symlink("usr/" + name, os.path.join(self.dir, "rootfs", name))
        there = os.path.join(self.dir, "rootfs/agent")
        with open(os.path.join(there, "agent.js"), "w") as f:
            f.write(CODE % 1)
        for name in ("package.json", "node_modules"):
            subprocess.run(["cp", "-a", os.path.join(program, name), there], check=True)
        subprocess.run(["cp", "-L", node, os.path.join(self.dir, "rootfs/node/node")], check=True)
        self.configure()

    def configure(self):
        subprocess.run([self.runtime, "spec"], cwd=self.dir, check=True)
        path = os.path.join(self.dir, "config.json")
        with open(path) as f:
            config = json.load(f)
        config["process"].update(terminal=False, args=["/node/node", "agent.js"], cwd="/agent")
        config["mounts"] += [{"destination": "/" + name, "type": "bind", "source": "/" + name, "options": ["rbind", "ro"]}
                             for name in ("usr", "etc")]
        with open(path, "w") as f:
            json.dump(config, f)

    def crowd(self, count):
        """Seconds until each of that many, begun together, has printed its answer, and until it has ended."""
        begin, running = time.perf_counter(), []
        for _ in range(count):
            self.count += 1
            running.append(subprocess.Popen([self.runtime, "run", f"bench-{os.getpid()}-{self.count}"], cwd=self.dir,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            running[-1].stdin.write(b"hello")
            running[-1].stdin.close()
        first, end = [], []
        for p in running:
            assert p.stdout.read(1) == b"h", "the container does not answer"
            first.append(time.perf_counter() - begin)
        for p in running:
            assert p.stdout.read() == b"ello" and p.wait() == 0
            end.append(time.perf_counter() - begin)
        return first, end


def measure_containers(o):
    bundle, result = Bundle(o.runtime, o.node, o.program), {}
    for count, usual in CONTAINERS.items():
        series = [bundle.crowd(count) for _ in range((o.rounds or usual) + 1)][1:]  # the first is a rehearsal
        heading(f"{os.path.basename(o.runtime)} run of the same program: {count} at once; ms", ("least", "p50", "p90", "p99"))
        result[str(count)] = {"first": show("to the first byte of the answer", [s for first, _ in series for s in first]),
                              "end": show("to its end", [s for _, end in series for s in end])}
    return result


def remove(side):
    """Its versions are beside the operator's templates."""
    builds = [v["buildID"] for v in ask(side.daemon.port, "GET", f"/agents/{AGENT}/versions", side.key)[1]]
    assert ask(side.daemon.port, "DELETE", f"/agents/{AGENT}", side.key)[0] == 204
    at = os.path.join(side.daemon.home, "templates")
    assert eventually(lambda: not set(builds) & set(os.listdir(at)), 120)


@contextlib.contextmanager
def steps_beside_templates(side):
    """A cache of steps links what it shares with templates, so both are on one file system."""
    with tempfile.TemporaryDirectory(prefix="bench-steps.", dir=os.environ["MAYFLY_HOME"]) as there:
        os.symlink(there, os.path.join(side.daemon.home, "steps"))
        yield


def measure_node(o):
    side = Side(0)
    with steps_beside_templates(side), side:
        version, deploys = measure_deploy(side, o.program)
        result = {"deploy": deploys,
                  "invoke": measure_crowds(side, AGENT, o.rounds, "microVMs with Node.js and its SDK", CROWDS),
                  "running": measure_running(side, AGENT, "stay"), "version": measure_version(side, version["buildID"])}
        remove(side)
    result["container"] = measure_containers(o)
    ratio = result["container"]["1"]["first"]["p50_us"] / result["invoke"]["1"]["first"]["p50_us"]
    print(f"\n  a container's first byte takes {ratio:.1f} times as long", flush=True)
    return {**result, "container_ratio": round(ratio, 2)}
