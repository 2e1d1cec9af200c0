"""Hosted agents for tests and benchmarks that do not build: the rows of a version that is ready, as a build leaves them,
and clients that invoke."""
import contextlib
import io
import json
import sqlite3
import tarfile
import uuid
from urllib.parse import quote

from served import VM, Client, ask, eventually, write_template

PATIENT_S = 1000 if VM else 120  # with an answer, where many are invoked at once


@contextlib.contextmanager
def database(d):
    with contextlib.closing(sqlite3.connect(f"{d.home}/mayfly.db", timeout=10)) as db, db:
        yield db


def enter(d, name, build, entry, owner="test", **columns):
    """An agent whose version 1 is the template `build`. Returns the agent's id."""
    values = {"cpus": 2, "memory_mb": 512, "disk_mb": 1024, "timeout_s": 20, "env_json": "{}", "secrets_json": "{}",
              "protocol": 0, "concurrency": 0, **columns}
    ident = uuid.uuid4().hex[:20]
    with database(d) as db:
        (key,) = db.execute("SELECT id FROM keys WHERE name = ?", (owner,)).fetchone()
        db.execute("INSERT INTO agents VALUES (?, ?, ?, 1, 1, 1, 1)", (ident, key, name))
        row = {"agent_id": ident, "number": 1, "state": 1, "build_id": build, "created_ns": 1, "finished_ns": 1, "kind": "command",
               "entry": entry, "dir": "", "user": "", "reason": "", "step": "", **values}
        db.execute(f"INSERT INTO agent_versions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
    return ident


def agent(d, name, entry, **columns):
    """The same with a build of its own, for native guests: the template's directory is there, and stays at a restart.
    Returns the build's id."""
    build = str(uuid.uuid4())
    write_template(d, 1, build)
    ident = enter(d, name, build, entry, **columns)
    with database(d) as db:
        db.execute("INSERT INTO builds (id, template_id, key_id, status, tags_json, created_ns, updated_ns, finished_ns, "
                   "cpus, memory_mb, disk_mb, free_mb, reason, step, log_count, log_bytes) SELECT "
                   "?, ?, key_id, 3, '[]', 1, 1, 1, 2, 512, 1024, 0, '', '', 0, 0 FROM agents WHERE id = ?", (build, ident, ident))
        db.execute("INSERT INTO tags (id, template_id, tag, build_id, at_ns, current) VALUES (?, ?, 'v1', ?, 1, 1)",
                   (str(uuid.uuid4()), ident, build))
    return build


def send(c, key, name, prompt, query="", **options):
    """A request to invoke; with options as JSON, else the prompt as it is."""
    data = json.dumps({"prompt": prompt, **options}).encode() if options else prompt.encode()
    kind = "Content-Type: application/json\r\n" if options else ""
    c.send(f"POST /agents/{name}/invoke{query} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n{kind}"
           f"Content-Length: {len(data)}\r\n\r\n".encode() + data)


def invoke(d, key, name, prompt="", query="", **options):
    """Status, headers and body of a whole answer."""
    c = Client(d.port, PATIENT_S)
    try:
        send(c, key, name, prompt, query, **options)
        return c.answer()
    finally:
        c.s.close()


def begin(d, key, name, prompt, query="", **options):
    """A client whose answer comes."""
    c = Client(d.port)
    send(c, key, name, prompt, query, **options)
    return c


# --- versions that are built ---

def api(d, key, method, path, body=None, expect=200):
    status, answer = ask(d.port, method, path, key, body)
    assert status == expect, (method, path, status, answer)
    return answer


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.uid, info.mode = len(text), 4711, 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def deploy(d, key, name, files, seconds, **settings):
    """The version at its end, and the messages of its log."""
    v = api(d, key, "PUT", f"/agents/{name}?settings={quote(json.dumps(settings))}", archive(files), 202)
    path = f"/agents/{name}/versions/{v['version']}"
    assert eventually(lambda: api(d, key, "GET", path)["state"] != "building", seconds)
    return api(d, key, "GET", path), [e["message"] for e in api(d, key, "GET", path + "/logs?limit=1000")["logs"]]
