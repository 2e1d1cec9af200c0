"""The official code interpreter's Python class, unmodified, with what differs from JavaScript's: None
instead of absent members, timestamps, its own models of results and charts."""
import os
import sys
import traceback

from e2b_code_interpreter import Sandbox
from e2b_code_interpreter.charts import BoxAndWhiskerChart, LineChart, PieChart, SuperChart

NATIVE = bool(os.environ.get("SDK_TEST_NATIVE"))
SLOW = 1 if NATIVE else 10
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def run(sandbox, code, **more):
    return sandbox.run_code(code, timeout=60 * SLOW, request_timeout=60 * SLOW, **more)


@test
def results(sandbox):
    execution = run(sandbox, "print('é'); {'a': [1]}")
    assert execution.text == "{'a': [1]}" and execution.logs.stdout == ["é\n"]
    assert execution.results[0].json == {"a": [1]} and execution.results[0].is_main_result
    data = run(sandbox, "import pandas; pandas.DataFrame({'x': [1.5]})").results[0].data
    assert data == {"x": [1.5]}, data


@test
def callbacks(sandbox):
    lines, kinds = [], []
    run(sandbox, "import sys\nprint('a')\nprint('b', file=sys.stderr)\n1/0",
        on_stdout=lambda m: lines.append((m.line, m.error, bool(m.timestamp))),
        on_stderr=lambda m: lines.append((m.line, m.error, bool(m.timestamp))),
        on_error=lambda e: kinds.append(e.name))
    assert sorted(lines) == [("a\n", False, True), ("b\n", True, True)], lines
    assert kinds == ["ZeroDivisionError"]


@test
def charts(sandbox):
    def chart(code):
        found = [r for r in run(sandbox, "import matplotlib.pyplot as plt\n" + code).results if r.png]
        return found[0].chart

    line = chart("plt.plot([1, 2], [3, 4], label='s'); plt.title('T')")
    assert isinstance(line, LineChart) and line.title == "T"
    assert line.elements[0].label == "s"
    assert [tuple(p) for p in line.elements[0].points] == [(1, 3), (2, 4)]
    pie = chart("plt.pie([1, 1], labels=['a', 'b'])")
    assert isinstance(pie, PieChart) and [e.angle for e in pie.elements] == [180, 180]
    assert [e.angle for e in chart("plt.pie([1, 9])").elements] == [36, 324]
    box = chart("plt.boxplot([[1, 2, 3]])")
    assert isinstance(box, BoxAndWhiskerChart) and box.elements[0].median == 2
    both = chart("f, (a, b) = plt.subplots(2)\na.plot([1]); b.bar([1], [2])")
    assert isinstance(both, SuperChart) and len(both.elements) == 2


@test
def contexts(sandbox):
    context = sandbox.create_code_context(cwd="/usr", request_timeout=60 * SLOW)
    assert run(sandbox, "import os; os.getcwd()", context=context).text == "/usr"
    assert context.id in [c.id for c in sandbox.list_code_contexts()]
    sandbox.restart_code_context(context.id)
    assert run(sandbox, "os", context=context).error.name == "NameError"
    sandbox.remove_code_context(context.id)


@test
def languages(sandbox):
    assert run(sandbox, "1 + 1", language="javascript").text == "2"
    assert run(sandbox, "echo $V", language="bash", envs={"V": "v"}).logs.stdout == ["v\n"]
    assert run(sandbox, "cat(mean(c(1, 3)))", language="r").logs.stdout == ["2"]


@test
def lines_that_look_like_ends(sandbox):
    text = "a\u2028b\u2029c\x85d\x0be"
    assert run(sandbox, f"print({text!r})").logs.stdout == [text + "\n"]


def main():
    status = 0
    with Sandbox.create(timeout=600) as sandbox:
        for fn in TESTS:
            try:
                fn(sandbox)
                print(f"ok - code (Python): {fn.__name__.replace('_', ' ')}", flush=True)
            except Exception:
                status = 1
                print(f"not ok - code (Python): {fn.__name__}\n{traceback.format_exc()}", flush=True)
        sandbox.kill()
    return status


if __name__ == "__main__":
    sys.exit(main())
