"""Measures which lines of its own modules a fuzz target's inputs reach, with clang's source coverage.

A target's own modules are those whose headers it includes, with the files that have their names and more
(x.c, x_more.c), and files named as the target is. Base and what the modules only use do not count. The
programs stay in build-fuzz/TARGET."""
import glob
import json
import os
import re
import subprocess
import sys

from targets import compile_target, sources

FLAGS = ["-fprofile-instr-generate", "-fcoverage-mapping"]


def own_stems(target):
    """Paths without .c that own modules' files begin with."""
    with open(f"tests/fuzz/fuzz_{target}.c") as f:
        headers = re.findall(r'^#include "((?!base/)\w+/\w+)\.h"', f.read(), re.M)
    named = [re.sub(r"(_\w+)?\.c$", "", s) for s in sources(target)
             if re.fullmatch(rf"src/\w+/{target}(_\w+)?\.c", s)]
    return [f"src/{h}" for h in headers] + named


def own_files(target):
    stems = own_stems(target)
    return [s for s in sources(target) if any(re.fullmatch(rf"{stem}(_\w+)?\.c", s) for stem in stems)]


def measure(target, corpus=None):
    """llvm-cov's answer about the own modules, and the number of inputs in a directory, or in the target's corpus."""
    corpus = corpus or f"tests/fuzz/corpora/{target}"
    program, text = compile_target(target, FLAGS, f"build-fuzz/{target}/coverage", ["tests/fuzz/replay_main.c"])
    if not program:
        sys.exit(f"tests/fuzz: {target} does not compile\n{text}")
    inputs = glob.glob(f"{corpus}/*")
    raw, data = f"{program}.profraw", f"{program}.profdata"
    subprocess.run([program, corpus], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env={**os.environ, "LLVM_PROFILE_FILE": raw})
    subprocess.run(["llvm-profdata", "merge", "-o", data, raw], check=True)
    out = subprocess.run(["llvm-cov", "export", f"-instr-profile={data}", program, *own_files(target)], check=True,
                         capture_output=True, text=True).stdout
    os.unlink(raw)
    return json.loads(out)["data"][0], len(inputs)


def lines_of(target, corpus):
    """How many lines of the own modules the inputs reach."""
    return measure(target, corpus)[0]["totals"]["lines"]["covered"]
