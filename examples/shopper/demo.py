"""A purchase that a person allows: the demonstration of docs/demo-consent.md, step by step.

    python3 demo.py [--yes | --no]

It starts a shop, a scripted model and `mayfly serve`, and ends them again. Without an option it asks on the terminal;
--yes and --no answer in your place, as it does itself where there is no terminal. MAYFLY names the program, MAYFLY_HOME
has the template `base`. Status 1, and a sentence, if something is not as it should be.
"""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path += [HERE, os.path.join(os.path.dirname(HERE), "scripted-model")]
import server as scripted_model  # noqa: E402  pylint: disable=wrong-import-position
import shop as the_shop  # noqa: E402  pylint: disable=wrong-import-position

PROMPT = "Buy a lamp."
START_S, ASK_S, END_S, LOG_S = 600, 900, 60, 20
ORDER_TIMEOUT_S, THINK_S = 20, 30


class Stop(Exception):
    """The demonstration cannot go on; why, as a sentence."""


def say(text=""):
    print(text, flush=True)


def step(text):
    say(f"== {text}")


def end(process, sig=signal.SIGTERM):
    """Ends a process that this one has started."""
    if process.poll() is None:
        process.send_signal(sig)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Servers:
    """The shop and the model, and the file that gives them names for sandboxes."""

    def __init__(self, directory):
        with open(os.path.join(HERE, "script.json"), encoding="utf-8") as f:
            self.model = scripted_model.serve(json.load(f))
        self.shop = the_shop.serve()
        self.hosts = os.path.join(directory, "hosts")
        with open(self.hosts, "w", encoding="utf-8") as f:
            for server, name in ((self.shop, "shop"), (self.model, "model")):
                f.write(f"127.0.0.1:{server.server_address[1]} {name}.example\n")
                threading.Thread(target=server.serve_forever, daemon=True).start()

    def close(self):
        for server in (self.shop, self.model):
            server.shutdown()
            server.server_close()


class Mayfly:
    """The command line."""

    def __init__(self, program, env=None):
        self.program, self.env = program, env

    def start(self, *words, **options):
        return subprocess.Popen([self.program, *words], env=self.env, text=True, **options)

    def __call__(self, *words):
        say("$ mayfly " + shlex.join(os.path.relpath(w) if w.startswith(HERE) else w for w in words))
        r = subprocess.run([self.program, *words], env=self.env, capture_output=True, text=True, check=False)
        if r.returncode:
            raise Stop(f"mayfly {words[0]} failed ({r.returncode}): {(r.stderr or r.stdout).strip()}")
        return r.stdout.strip()

    def waiting(self, sandbox):
        """What the sandbox asks people."""
        r = subprocess.run([self.program, "approvals", "--json"], env=self.env, capture_output=True, text=True, check=False)
        if r.returncode:
            raise Stop(f"mayfly approvals failed: {r.stderr.strip()}")
        return [a for a in json.loads(r.stdout) if a["sandboxID"] == sandbox]


class Daemon:
    """`mayfly serve`, for sandboxes that know the servers' names."""

    def __init__(self, mayfly, servers, directory):
        self.log = os.path.join(directory, "log")
        with open(self.log, "w", encoding="utf-8") as f:
            self.process = mayfly.start("serve", "--listen", "127.0.0.1:0", f"--egress-hosts={servers.hosts}", stdout=f, stderr=f)
        until = time.monotonic() + START_S
        while not re.search(r"port \d+", self.said()):
            if self.process.poll() is not None or time.monotonic() > until:
                self.close()
                raise Stop(f"mayfly serve does not start: {self.said().strip()[-500:]}")
            time.sleep(0.1)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def close(self):
        end(self.process)


class Agent:
    """The agent in its sandbox; what it says is shown as it comes."""

    def __init__(self, mayfly, sandbox, place, env):
        words = ["exec", *(w for pair in env for w in ("-e", pair)), sandbox, "--", "python3", place, PROMPT]
        say("$ mayfly " + shlex.join(words) + " &")
        self.process = mayfly.start(*words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.show)
        self.reader.start()

    def show(self):
        for line in self.process.stdout:
            say(f"  agent: {line.rstrip()}")

    def wait(self):
        status = self.process.wait()
        self.reader.join()
        return status

    def close(self):
        end(self.process, signal.SIGKILL)
        self.reader.join()


def wait_for_question(mayfly, sandbox, agent):
    until = time.monotonic() + ASK_S
    while not (found := mayfly.waiting(sandbox)):
        if agent.process.poll() is not None:
            raise Stop(f"the agent ended ({agent.wait()}) without having asked")
        if time.monotonic() > until:
            raise Stop(f"nobody was asked in {ASK_S} s")
        time.sleep(0.2)
    return found[0]


class Person:
    """Who decides: somebody at the terminal, or this script."""

    def __init__(self, answer=None, think_s=THINK_S):
        self.answer, self.think_s = answer, think_s
        self.why = "as you said" if answer else "there is no terminal, so this script says yes"
        self.terminal = (sys.stdin, sys.stdout) if not answer and sys.stdin.isatty() and sys.stdout.isatty() else None

    def decide(self, mayfly, question, agent):
        if self.terminal:
            return self.ask(mayfly, question, agent)
        say(f"   (in your place: {self.why}; it takes {self.think_s} s to think about it)")
        time.sleep(self.think_s)
        return mayfly("approvals", "deny" if self.answer == "no" else "allow", question["approvalID"])

    def ask(self, mayfly, question, agent):
        step("your turn: mayfly approvals -f asks you; a allows it once, d denies it")
        stdin, stdout = self.terminal
        before = termios.tcgetattr(stdin)
        person = mayfly.start("approvals", "-f", stdin=stdin, stdout=stdout)
        try:
            while agent.process.poll() is None and person.poll() is None:
                time.sleep(0.1)
        finally:
            end(person)
            termios.tcsetattr(stdin, termios.TCSANOW, before)
        if question in mayfly.waiting(question["sandboxID"]):
            raise Stop("nobody has decided, so nothing was bought")


def told(mayfly, sandbox, pattern):
    """The log once it grows no more, and where it says so: records come a moment after what they tell."""
    until, before = time.monotonic() + LOG_S, None
    while True:
        log = mayfly("activity", sandbox)
        found = re.search(pattern, log)
        if found and log == before or time.monotonic() > until:
            return log, found
        before = log
        time.sleep(1)


def check_end(mayfly, sandbox, question, servers, status):
    """What is true at the end, whatever was decided; whether it was allowed."""
    step("what the shop has")
    orders = servers.shop.orders
    say(f"   {json.dumps(orders)}" if orders else "   no order")
    step("what the log says")
    log, state = told(mayfly, sandbox, rf"(allowed|denied|expired|cancelled) {question['approvalID']}")
    say(log)
    if not state:
        raise Stop(f"the log does not tell what became of {question['approvalID']}")
    allowed = state.group(1) == "allowed"
    if [order["item"] for order in orders] != ["lamp"] * allowed or status != (0 if allowed else 1):
        raise Stop(f"it was {state.group(1)}, but the shop has {orders} and the agent ended with {status}")
    say(mayfly("activity", "--verify", sandbox))
    return allowed


def purchase(mayfly, servers, person, place="/tmp/shopper.py", env=(f"ORDER_TIMEOUT_S={ORDER_TIMEOUT_S}",)):
    """One purchase in a new sandbox, which is ended. Whether it was allowed."""
    step("a sandbox whose policy asks a person before anything is ordered, and that stands still meanwhile")
    sandbox = mayfly("create", "--policy", os.path.join(HERE, "policy.json"), "--while-waiting", "freeze", "--timeout", "30m")
    agent = None
    try:
        say(sandbox)
        mayfly("cp", os.path.join(HERE, "agent.py"), f"{sandbox}:{place}")
        step(f"the agent in it, which is told: {PROMPT}")
        agent = Agent(mayfly, sandbox, place, env)
        question = wait_for_question(mayfly, sandbox, agent)
        step("it asks to pay, and waits")
        say(f"   {question['method']} http://{question['host']}{question['path']} with {question.get('preview', 'no body')}")
        if servers.shop.orders:
            raise Stop(f"the shop has an order that nobody has allowed: {servers.shop.orders}")
        say("   the shop has no order yet")
        person.decide(mayfly, question, agent)
        return check_end(mayfly, sandbox, question, servers, agent.wait())
    finally:
        mayfly("kill", sandbox)
        if agent:
            agent.close()


def demonstrate(mayfly, person, directory):
    servers = daemon = None
    try:
        step("a shop and a scripted model, on this host's loopback")
        servers = Servers(directory)
        with open(servers.hosts, encoding="utf-8") as f:
            say("   " + f.read().strip().replace("\n", "\n   "))
        step("the daemon, whose sandboxes know these names")
        daemon = Daemon(mayfly, servers, directory)
        return purchase(mayfly, servers, person)
    finally:
        if daemon:
            daemon.close()
        if servers:
            servers.close()


def main():
    words = {"--yes": "yes", "--no": "no"}
    if any(a not in words for a in sys.argv[1:]) or len(sys.argv) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    mayfly = Mayfly(os.environ.get("MAYFLY", "mayfly"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="shopper.") as directory:
            allowed = demonstrate(mayfly, Person(words.get((sys.argv + [""])[1])), directory)
    except (Stop, OSError) as e:
        print(f"demo-consent: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    step("done: " + ("you allowed one order, and there is one" if allowed else "it was not allowed, and nothing was ordered"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
