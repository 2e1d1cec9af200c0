"""QEMU's own ways of keeping a machine, for bench/states: a guest of the same kernel, initramfs, command
line, memory and image. Its memory is written as a whole, whatever has changed, so the bytes that ours
has dirty are put into it before it boots, above what its kernel uses."""
import glob
import json
import os
import socket
import subprocess
import time

BOOT_S = 120
FILL_AT = 256 << 20


class Qemu:
    def __init__(self, directory, home, template, cmdline, memory_mb):
        self.dir, self.memory_mb, self.process = directory, memory_mb, None
        kernel = glob.glob(f"{home}/kernels/*/vmlinux")[0]
        initrd = max(glob.glob(f"{home}/kernels/*/initrd-*"), key=os.path.getmtime)
        self.disk = f"{directory}/qemu.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b",
                        f"{home}/templates/{template}/rootfs.ext4", self.disk], check=True)
        self.command = [
            "qemu-system-x86_64", "-M", "microvm,acpi=on,pit=off,pic=off,rtc=off", "-enable-kvm", "-cpu",
            "host", "-smp", "1", "-m", f"{memory_mb}M", "-nodefaults", "-no-user-config", "-display",
            "none", "-kernel", kernel, "-initrd", initrd, "-append", cmdline,
            "-serial", f"file:{directory}/serial", "-qmp", f"unix:{directory}/qmp,server,nowait",
            "-drive", f"id=d,file={self.disk},format=qcow2,if=none", "-device", "virtio-blk-device,drive=d",
            "-device", "virtio-rng-device"]

    def launch(self, *more):
        for name in ("qmp", "serial"):
            if os.path.exists(f"{self.dir}/{name}"):
                os.unlink(f"{self.dir}/{name}")
        self.process = subprocess.Popen(self.command + list(more))
        self.monitor = socket.socket(socket.AF_UNIX)
        self.wait(lambda: os.path.exists(f"{self.dir}/qmp"), "it does not start")
        self.monitor.connect(f"{self.dir}/qmp")
        self.answers = self.monitor.makefile("r")
        self.answers.readline()
        self.ask("qmp_capabilities")

    def boot(self, fill_mb):
        """Until the agent is ready; fill_mb of its memory are random bytes."""
        fill = f"{self.dir}/fill"
        with open(fill, "wb") as f:
            f.write(os.urandom(fill_mb << 20))
        self.launch("-device", f"loader,file={fill},addr={FILL_AT},force-raw=on")
        self.wait(lambda: "mayfly-agent: ready" in open(f"{self.dir}/serial", errors="replace").read(),
                  "its guest does not come up")
        os.unlink(fill)

    def wait(self, fn, why):
        end = time.monotonic() + BOOT_S
        while not fn():
            assert time.monotonic() < end and self.process.poll() is None, f"QEMU: {why}"
            time.sleep(0.01)

    def ask(self, command, **arguments):
        self.monitor.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(self.answers.readline())
            if "error" in answer:
                raise RuntimeError(f"QEMU: {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.monitor.close()

    def migrate(self, path, stopped):
        """To a file; (seconds, seconds of it that the guest stood, bytes). It goes on afterwards."""
        self.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40, "downtime-limit": 100})
        begin = time.monotonic()
        if stopped:
            self.ask("stop")
        self.ask("migrate", uri=f"exec:cat >{path}")
        while (told := self.ask("query-migrate"))["status"] not in ("completed", "failed"):
            time.sleep(0.001)
        took = time.monotonic() - begin
        assert told["status"] == "completed", told
        self.ask("cont")
        stood = time.monotonic() - begin if stopped else told["downtime"] / 1000
        return took, stood, os.path.getsize(path)

    def save(self):
        """Into its disk's file, by savevm; the guest stands as long."""
        begin = time.monotonic()
        told = self.ask("human-monitor-command", **{"command-line": "savevm bench"})
        took = time.monotonic() - begin
        assert not told, told
        self.ask("human-monitor-command", **{"command-line": "delvm bench"})
        return took

    def load(self, path):
        """A new process that goes on from the file; seconds until the guest runs."""
        begin = time.monotonic()
        self.launch("-incoming", f"exec:cat {path}")
        while self.ask("query-status")["status"] != "running":
            time.sleep(0.001)
        return time.monotonic() - begin
