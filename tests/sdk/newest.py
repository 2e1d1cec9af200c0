"""What the newest Python SDK (requirements-new.txt) does that older ones do not: input as a stream,
idempotency keys, order, pause modes, its own exceptions; and E2B_DOMAIN alone, over TLS with the daemon's
own certificate. Natively; the environment is that of the programs next to it (harness.mjs)."""
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid

import e2b
import e2b.retry
from e2b import Sandbox, SandboxQuery, Secret, Template

TESTS = []
HOME = {"HOME": "/var/empty"}
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOMAIN = "mf.localhost"
started = []


def test(fn):
    TESTS.append(fn)
    return fn


def create(**more):
    sandbox = Sandbox.create(timeout=more.pop("timeout", 600), envs={**HOME, **more.pop("envs", {})}, **more)
    started.append(sandbox)
    return sandbox


def raises(kind, fn, text=""):
    try:
        value = fn()
    except kind as e:
        assert text in str(e), repr(e)
        return e
    raise AssertionError(f"no {kind.__name__} but {value!r}")


@test
def commands_and_files(sandbox):
    assert sandbox.commands.run('echo "$SET"', envs={"SET": "now"}).stdout == "now\n"
    raises(e2b.CommandExitException, lambda: sandbox.commands.run("exit 3"))
    path = f"/tmp/newest-{uuid.uuid4().hex}"
    sandbox.files.write(f"{path}/f", "text")
    assert sandbox.files.read(f"{path}/f") == "text"
    sandbox.commands.run(f"ln -s f {path}/link")
    info = sandbox.files.get_info(f"{path}/link")
    assert info.symlink_target == f"{path}/f", info
    assert {e.name for e in sandbox.files.list(path)} == {"f", "link"}
    sandbox.files.remove(path)
    raises(e2b.FileNotFoundException, lambda: sandbox.files.read(path))


@test
def proxy_with_tls(_):
    proxy = {"address": "proxy.example.com:1080", "username": "u"}
    sandbox = create(network={"egress_proxy": {**proxy, "password": "p", "tls": {"server_name": "p.example.com"}}})
    assert sandbox.get_info().network.get("egress_proxy") == {**proxy, "tls": {"server_name": "p.example.com"}}
    sandbox.update_network({"egress_proxy": {**proxy, "tls": True}})
    assert sandbox.get_info().network.get("egress_proxy") == {**proxy, "tls": {}}
    raises(e2b.SandboxException, lambda: create(network={"egress_proxy": {**proxy, "tls": {"ca_cert": "x"}}}),
           "egressProxy.tls.caCert")
    sandbox.kill()


@test
def resolvers_of_a_network(_):
    given = {"allow_out": ["example.com"], "deny_out": ["0.0.0.0/0"], "dns_servers": ["1.1.1.1"]}
    sandbox = create(network=given)
    network = sandbox.get_info().network
    assert {k: network.get(k) for k in given} == given, network
    sandbox.update_network({"dns_servers": []})
    assert sandbox.get_info().network.get("dns_servers") == []
    raises(e2b.SandboxException, lambda: create(network={"dns_servers": ["dns.example"]}), "dnsServers[0]")
    sandbox.kill()


@test
def ports_that_speak_tls(_):
    sandbox = create(network={"https_ports": [8443, 3000]})
    assert sandbox.get_info().network.get("https_ports") == [8443, 3000]
    sandbox.update_network({})
    assert sandbox.get_info().network.get("https_ports") == [8443, 3000], "an update does not have them"
    for port in (49983, 0):
        raises(e2b.SandboxException, lambda: create(network={"https_ports": [port]}), "httpsPorts[0]")  # noqa: B023
    sandbox.kill()


@test
def secrets(_):
    name = f"Secret-{uuid.uuid4().hex}"
    made = Secret.create(name, "first", metadata={"team": "x"})
    assert made.secret_id.startswith("sec_") and made.name == name.lower() and made.version == 1, made
    assert made.metadata == {"team": "x"} and made.created_at == made.updated_at
    raises(e2b.SecretException, lambda: Secret.create(name, "again"), "there is a secret")
    changed = Secret.update(made.secret_id, "second")
    assert changed.version == 2 and changed.metadata == {"team": "x"} and changed.updated_at > made.updated_at
    assert Secret.update(name, "third", metadata={}).metadata == {}
    assert Secret.get_info(name).version == 3 and Secret.exists(name)
    others = [Secret.create(f"{name}-{n}", "v") for n in range(3)]
    seen, pages = [], Secret.list(limit=2)
    while pages.has_next:
        seen += [s.name for s in pages.next_items()]
    assert seen == sorted([made.name, *(s.name for s in others)]), seen
    other = {"api_key": os.environ["E2B_API_KEY_OTHER"]}
    assert not Secret.exists(name, **other) and Secret.destroy(name, **other) is False
    for one in (made, *others):
        assert Secret.destroy(one.name) is True
    assert Secret.destroy(name) is False and not Secret.exists(name)
    raises(e2b.SecretNotFoundException, lambda: Secret.update(name, "x"))
    raises(e2b.SecretNotFoundException, lambda: Secret.get_info(made.secret_id))
    raises(e2b.SecretException, lambda: Secret.create("a.b", "x"), "letters, digits")
    raises(e2b.SecretException, lambda: Secret.create(name, "two\nlines"), "ends of lines")


@test
def rules_with_secrets(_):
    rules = {"api.example.com": [{"transform": {"headers": {"Authorization": f"Bearer {Secret.fill('openai')}"}}}]}
    sandbox = create(network={"rules": rules})
    assert sandbox.get_info().network.get("rules") == rules, sandbox.get_info().network
    others = {"*.example.org": [{"transform": {"headers": {"X": "plain"}}}]}
    sandbox.update_network({"rules": others})
    assert sandbox.get_info().network.get("rules") == others
    raises(e2b.SandboxException, lambda: create(network={"rules": {"*": []}}), "rules['*']")
    sandbox.kill()


@test
def tokens_of_a_sandbox(_):
    tokens = {"aws": Secret.iam_token(audience="sts.example.com", token_type="JWT-SVID")}
    rules = {"api.example.com": [{"transform": lambda c: {"headers": {"Authorization": f"Bearer {c.iam.tokens['aws']}"}}}]}
    sandbox = create(iam={"tokens": tokens}, network={"rules": rules})
    header = {"Authorization": "Bearer ${e2b.identity.tokens.aws}"}
    assert sandbox.get_info().network.get("rules") == {"api.example.com": [{"transform": {"headers": header}}]}
    sandbox.update_network({"rules": {"b.example.com": [{"transform": lambda c: {"headers": {"X": c.iam.tokens["aws"]}}}]}})
    assert list(sandbox.get_info().network.get("rules")) == ["b.example.com"]
    raises(e2b.SandboxException, lambda: create(iam={"tokens": {"a" * 65: tokens["aws"]}}), "iam.tokens")
    sandbox.kill()


@test
def input_as_a_stream(sandbox):
    command = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.stream_input(command.pid, (f"line {i}\n".encode() for i in range(1000)))
    sandbox.commands.close_stdin(command.pid)
    assert command.wait().stdout == "".join(f"line {i}\n" for i in range(1000))
    raises(e2b.SandboxException, lambda: sandbox.commands.stream_input(999999, [b"x"]))


@test
def changes_are_told_when_they_are_done(sandbox):
    """Whoever polls right after a change gets its events, however the agent's turns fall."""
    with_events = 0
    for i in range(100):
        path = f"/tmp/newest-{os.getpid()}/{i}"
        sandbox.files.make_dir(path)
        handle = sandbox.files.watch_dir(path)
        sandbox.files.write(f"{path}/file", "x")
        with_events += [e.type.value for e in handle.get_new_events()] == ["create", "chmod", "write"]
        handle.stop()
    sandbox.files.remove(f"/tmp/newest-{os.getpid()}")
    assert with_events == 100, with_events


@test
def a_terminal(sandbox):
    seen = []
    terminal = sandbox.pty.create(e2b.PtySize(rows=24, cols=80), envs=HOME)
    sandbox.pty.stream_input(terminal.pid, [b"stty size; ", b"exit\n"])
    terminal.wait(on_pty=seen.append)
    assert b"24 80" in b"".join(seen), seen


@test
def pause_and_resume(sandbox):
    assert sandbox.pause() is True and sandbox.pause() is False
    assert Sandbox.get_info(sandbox.sandbox_id).state.value == "paused"
    again = Sandbox.connect(sandbox.sandbox_id, timeout=600)
    assert again.is_running() and again.commands.run("echo back").stdout == "back\n"


@test
def snapshots(sandbox):
    snapshot = sandbox.create_snapshot(name="newest")
    assert [s.snapshot_id for s in sandbox.list_snapshots().next_items()] == [snapshot.snapshot_id]
    other = create(template=snapshot.snapshot_id)
    assert other.sandbox_id != sandbox.sandbox_id
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False


@test
def idempotency(sandbox):
    word = uuid.uuid4().hex
    made = [create(idempotency_key=word, metadata={"word": word}) for _ in range(2)]
    assert made[0].sandbox_id == made[1].sandbox_id
    assert made[1].commands.run("echo same").stdout == "same\n"
    e = raises(e2b.SandboxException, lambda: create(idempotency_key=word, metadata={"word": "other"}))
    assert e.status_code == 422, e
    made[0].kill()
    e = raises(e2b.SandboxException, lambda: create(idempotency_key=word, metadata={"word": word}))
    assert e.status_code == 409, e


@test
def lists(sandbox):
    tag = {"list": uuid.uuid4().hex}
    before = datetime.datetime.now(datetime.timezone.utc)
    made = [create(metadata=tag).sandbox_id for _ in range(3)]

    def listed(order="desc", **more):
        query = SandboxQuery(metadata=tag, **more)
        return [s.sandbox_id for s in Sandbox.list(query=query, order=order).next_items()]
    assert listed() == made[::-1] and listed(order="asc") == made, (listed(), listed(order="asc"))
    assert listed(started_after=before) == made[::-1]
    assert listed(started_after=before + datetime.timedelta(hours=1)) == []


@test
def words_of_refusals(sandbox):
    """E2B's texts, which programs look for."""
    raises(e2b.SandboxException, lambda: Sandbox.create("no-such-template"), "404: template 'no-such-template' not found")
    raises(e2b.SandboxException, lambda: create(timeout=10**9), "400: Timeout cannot be greater than ")
    raises(e2b.SandboxException, lambda: create(network={"allow_out": ["example.com"]}),
           "you must include 'ALL_TRAFFIC' in deny out to block all other traffic.")
    raises(e2b.SandboxException, lambda: create(network={"deny_out": ["example.com"]}), "invalid denied CIDR example.com")


@test
def templates(sandbox):
    assert Template.exists("no-such-template") is False


@test
def killed_while_it_streams(sandbox):
    mine = create()
    threading.Timer(0.5, mine.kill).start()
    raises(e2b.exceptions.SandboxNotRunningException, lambda: mine.commands.run("sleep 60"),
           "killed or reached its end of life")
    assert mine.is_running() is False
    raises(e2b.exceptions.SandboxNotRunningException, lambda: mine.commands.run("true"), "was not found")


@test
def limits_are_not_asked_again(sandbox):
    few = os.environ["E2B_API_KEY_FEW"]
    one = create(api_key=few)
    delays, retry_delay = [], e2b.retry._retry_delay  # asked about each answer; None: it is not asked again
    e2b.retry._retry_delay = lambda *a: delays.append(retry_delay(*a)) or delays[-1]
    try:
        raises(e2b.RateLimitException, lambda: Sandbox.create(api_key=few))
    finally:
        e2b.retry._retry_delay = retry_delay
    assert delays == [None], (delays, "Should-Retry: false is obeyed")
    Sandbox.kill(one.sandbox_id, api_key=few)


def start_tls():
    """A daemon of its own whose port speaks TLS; it and what it said of itself."""
    process = subprocess.Popen([os.path.join(TOP, "tests/sdk/serve"), "native", "0"],
                               env={**os.environ, "SDK_TEST_TLS": DOMAIN}, stdout=subprocess.PIPE, text=True)
    said = {}
    for line in process.stdout:
        name, value = line.split()[:2]
        said[name] = value
        if name == "port":
            return process, said
    raise AssertionError("the daemon does not start")


@test
def a_domain_only(sandbox):
    """In a program of its own, as the SDK reads its environment once."""
    process, said = start_tls()
    try:
        env = {k: v for k, v in os.environ.items() if not k.startswith("E2B_")}
        env.update(E2B_DOMAIN=f"{DOMAIN}:{said['port']}", E2B_API_KEY=said["key"], SSL_CERT_FILE=said["ca"])
        done = subprocess.run([sys.executable, __file__, "--domain"], env=env, capture_output=True,
                              text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def check_domain():
    sandbox = create()
    assert sandbox.get_host(8080) == f"8080-{sandbox.sandbox_id}.{os.environ['E2B_DOMAIN']}"
    commands_and_files(sandbox)
    input_as_a_stream(sandbox)
    url = sandbox.download_url("/etc/hostname", use_signature_expiration=60)
    assert url.startswith(f"https://49983-{sandbox.sandbox_id}.{DOMAIN}:"), url
    assert sandbox.kill() and sandbox.is_running() is False


def main():
    status, only = 0, os.environ.get("SDK_TEST_ONLY")
    if "--domain" in sys.argv:
        check_domain()
        return 0
    sandbox = create()
    for fn in TESTS:
        if only and only not in fn.__name__:
            continue
        name = f"newest: {fn.__name__}"
        try:
            fn(sandbox)
            print(f"ok - {name}", flush=True)
        except Exception:  # pylint: disable=broad-except
            status = 1
            print(f"not ok - {name}\n{traceback.format_exc()}", flush=True)
    for one in started:
        Sandbox.kill(one.sandbox_id)
    return status


if __name__ == "__main__":
    sys.exit(main())
