"""Loads modules of the emulated host's kernel (tools/kvmhost)."""
import glob
import os
import subprocess

LOADED = set()


def load(name):
    """With what it depends on, which is in no index: the tree was unpacked, not installed. FileNotFoundError: there is no
    such module."""
    if name in LOADED or os.path.isdir(f"/sys/module/{name}"):
        return
    files = glob.glob(f"/lib/modules/{os.uname().release}/**/{name.replace('_', '[-_]')}.ko*", recursive=True)
    if not files:
        raise FileNotFoundError(f"no module {name} in /lib/modules: run it with tools/kvmhost --force-emulation")
    depends = subprocess.check_output(["modinfo", "-F", "depends", files[0]], text=True).strip()
    for d in filter(None, depends.split(",")):
        load(d.replace("-", "_"))
    subprocess.run(["insmod", files[0]], check=True)
    LOADED.add(name)
