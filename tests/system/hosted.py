"""Hosted agents for tests and benchmarks that do not build: the rows of a version that is ready, as a build leaves them,
and clients that invoke."""
import contextlib
import json
import sqlite3
import uuid

from served import Client, ask


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


def invoke(d, key, name, prompt="", query="", **options):
    """Status, headers and body of a whole answer."""
    if options:
        return ask(d.port, "POST", f"/agents/{name}/invoke{query}", key, {"prompt": prompt, **options},
                   headers=["Content-Type: application/json"], raw=True)
    return ask(d.port, "POST", f"/agents/{name}/invoke{query}", key, prompt.encode(), raw=True)


def begin(d, key, name, prompt, query="", **options):
    """A client whose answer comes."""
    c, data = Client(d.port), json.dumps({"prompt": prompt, **options})
    c.send(f"POST /agents/{name}/invoke{query} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n"
           f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n{data}")
    return c
