"""The fuzz targets, and how their programs are compiled. What targets need stands in fuzz_TARGET.sources:
sources, patterns of sources, options of the compiler and libraries."""
import glob
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ("-std=gnu17 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DFAULT_POINTS -Isrc -Itests/unit -g -O1 "
         "-fno-strict-aliasing").split()


def targets():
    return sorted(os.path.basename(p)[5:-8] for p in glob.glob("tests/fuzz/fuzz_*.sources"))


def words(target):
    with open(f"tests/fuzz/fuzz_{target}.sources") as f:
        return f.read().split()


def sources(target):
    """Files, base's too, and the compiler's options among them, which begin with '-'."""
    return [w for word in ["src/base/*.c"] + [w for w in words(target) if not w.startswith("-l")] for w in
            ([word] if word.startswith("-") else sorted(glob.glob(word)) or [word])]


def compile_target(target, flags, out, more=()):
    """The program's path, or None and what the compiler says."""
    os.makedirs(os.path.dirname(out), exist_ok=True)
    libraries = [w for w in words(target) if w.startswith("-l")] + ["-lpthread"]
    command = ["clang", *FLAGS, *flags, f"tests/fuzz/fuzz_{target}.c", *more, *sources(target), *libraries, "-o", out]
    r = subprocess.run(command, capture_output=True, text=True)
    return (out, "") if r.returncode == 0 else (None, r.stdout + r.stderr)
