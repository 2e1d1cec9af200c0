"""Fuzzing for hours. Every processor that this process may use gets a fuzzer at idle priority, so it takes only time that
nobody else wants. The target that has had the least CPU time so far is next, for a slice; what it finds stays in
build-fuzz/TARGET/corpus, where its next slice begins.

At the end the new inputs of each target are minimised. Those that reach new lines of the target's own modules go into
tests/fuzz/corpora, and the time into tests/fuzz/hours.json: commit both. `tests/fuzz/coverage` shows them."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

HOURS = "tests/fuzz/hours.json"
SLICE_S = 120
NEW_INPUTS_MAX = 200  # of a target and a run: unit tests replay them all


def read_hours():
    """By target: "cpu_s" and "inputs" of all runs on record."""
    try:
        with open(HOURS) as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def write_hours(hours):
    with open(HOURS + ".new", "w") as f:
        f.write("{\n" + ",\n".join(f" {json.dumps(t)}: {json.dumps(hours[t])}" for t in sorted(hours)) + "\n}\n")
    os.replace(HOURS + ".new", HOURS)


class Farm:
    def __init__(self, targets, hours, command):
        """command: a target's program and arguments for a slice of so many seconds."""
        self.command, self.end, self.lock = command, time.monotonic() + hours * 3600, threading.Lock()
        self.spent, self.free, self.failed = read_hours(), set(targets), []
        self.ran = set()

    def next(self):
        """The target with the least time that no other thread has, or None."""
        with self.lock:
            left = self.end - time.monotonic()
            if left < 5 or not self.free:
                return None, 0
            target = min(self.free, key=lambda t: (self.spent.get(t, {}).get("cpu_s", 0), t))
            self.free.discard(target)
            return target, int(min(SLICE_S, left))

    def run_slice(self, target, seconds):
        log = f"build-fuzz/{target}/long.log"
        with open(log, "wb") as f:
            process = subprocess.Popen(self.command(target, seconds), stdout=f, stderr=f, stdin=subprocess.DEVNULL)
            os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        with open(log, errors="replace") as f:
            text = f.read()
        inputs = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
        return process.returncode, int(inputs.group(1)) if inputs else 0, used.ru_utime + used.ru_stime, text

    def account(self, target, status, inputs, cpu_s, text):
        with self.lock:
            had = self.spent.setdefault(target, {"cpu_s": 0, "inputs": 0})
            had["cpu_s"], had["inputs"] = round(had["cpu_s"] + cpu_s), had["inputs"] + inputs
            self.ran.add(target)
            if status:  # the target waits for its repair
                self.failed.append((target, text[-3000:]))
            else:
                self.free.add(target)
            write_hours(self.spent)
            print(f"{'not ok' if status else 'ok'} - fuzz {target}: {inputs} inputs in {cpu_s:.0f} s, "
                  f"{had['cpu_s'] / 3600:.2f} hours in all", flush=True)

    def work(self):
        while True:
            target, seconds = self.next()
            if not target:
                return
            self.account(target, *self.run_slice(target, seconds))

    def run(self):
        threads = [threading.Thread(target=self.work) for _ in os.sched_getaffinity(0)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def keep_new_lines(target, program, lines_of):
    """Puts inputs that reach new lines into the target's corpus. lines_of: a directory of inputs to the number of lines.
    Returns the numbers of lines before and after, and of new inputs."""
    corpus = f"tests/fuzz/corpora/{target}"
    before = lines_of(target, corpus)
    with tempfile.TemporaryDirectory(dir="build-fuzz") as work:
        merged = os.path.join(work, "corpus")
        shutil.copytree(corpus, merged)
        subprocess.run([program, "-set_cover_merge=1", "-max_len=1024", merged, f"build-fuzz/{target}/corpus"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        new = sorted(set(os.listdir(merged)) - set(os.listdir(corpus)))[:NEW_INPUTS_MAX]
        trial = os.path.join(work, "trial")
        shutil.copytree(corpus, trial)
        for name in new:
            shutil.copy(os.path.join(merged, name), trial)
        after = lines_of(target, trial) if new else before
        if after <= before:
            return before, before, 0
        for name in new:
            shutil.copy(os.path.join(merged, name), corpus)
        return before, after, len(new)
