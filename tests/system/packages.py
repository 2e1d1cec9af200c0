"""Packages from registries, for tests that use other people's programs."""
import filecmp
import os
import shutil
import subprocess

LIMIT_S = 300


def install(source, there, pinned, command):
    """`there` becomes a copy of the directory `source` with what `command` installs in it, once for each state of the
    file `pinned`. None, or why it cannot be had."""
    lock, done = os.path.join(source, pinned), os.path.join(there, "installed")
    fresh = os.path.exists(done) and filecmp.cmp(done, lock, shallow=False)
    if not fresh:
        shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(source, there, dirs_exist_ok=True)
    if fresh:
        return None
    try:
        r = subprocess.run(command, cwd=there, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"its packages cannot be had: {e}"
    if r.returncode:
        return f"its packages cannot be had: {(r.stderr or r.stdout).strip().splitlines()[-1:]}"
    shutil.copy(lock, done)
    return None


def install_npm(source, there):
    return install(source, there, "package-lock.json", ["npm", "ci", "--no-audit", "--no-fund", "--silent"])


def install_python(source, there):
    return install(source, there, "requirements.txt",
                   ["sh", "-c", "python3 -m venv venv && venv/bin/pip install --quiet --requirement requirements.txt"])
