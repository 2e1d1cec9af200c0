"""What the programs of this directory share. Each program plays one attacker of docs/threat-model.md against the real
programs, and its cases are the ways that this attacker tries. A case returns a list of what it gained: each entry says
in words what the attacker now has. An empty list is passed. A case that cannot run here raises Skip with the reason.

  tests/attack/test_NAME            all cases
  tests/attack/test_NAME CASE...    some

`tests/run attack` runs every program that is named test_* here."""
import contextlib
import os
import shutil
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))

import served  # noqa: E402  pylint: disable=wrong-import-position

CASES = []
SHOWN = 5  # entries of a gain that are printed


class Skip(Exception):
    pass


def attack(fn):
    """Marks a case. Its name is what docs/threat-model.md quotes: `attack NAME: fn`."""
    CASES.append(fn)
    return fn


@contextlib.contextmanager
def daemon(*options):
    """A daemon of its own with native agents, and a key that may make many sandboxes. All of it ends with the case."""
    d = served.Daemon(served.make_home("attack."), options)
    d.start()
    try:
        yield d, d.key("attacked", "--max-sandboxes", "100", "--max-creates", "100000")
    finally:
        operator = os.path.join(d.home, "daemon.sock")
        for sandbox in served.ids(operator, None):
            served.ask(operator, "DELETE", f"/sandboxes/{sandbox}")
        served.eventually(lambda: not d.directories())
        d.stop()
        shutil.rmtree(d.home, ignore_errors=True)


def try_case(fn):
    try:
        gained = list(fn())
    except Skip as reason:
        print(f"skip - {fn.__name__}: {reason}", flush=True)
        return 0
    except Exception:  # a broken attack shows nothing
        traceback.print_exc(file=sys.stdout)
        print(f"not ok - {fn.__name__}: the attack itself failed", flush=True)
        return 1
    for entry in gained[:SHOWN]:
        print(f"# gained: {entry}")
    print(f"{'not ok' if gained else 'ok'} - {fn.__name__}: gained {len(gained)}", flush=True)
    return len(gained)


def main():
    """Runs the cases that the arguments name, or all; the exit status is 1 if one gained something."""
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    unknown = set(names) - {fn.__name__ for fn in CASES}
    if unknown:
        print(f"no case {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    total = sum([try_case(fn) for fn in CASES if not names or fn.__name__ in names])
    return 1 if total else 0
