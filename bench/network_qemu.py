"""A guest of QEMU with its user-mode network, for bench/network_vm: the kernel that our templates have, busybox, and
one program. It executes orders that come over its serial port."""
import glob
import os
import shutil
import socket
import subprocess
import time

BOOT_S, PATIENCE_S = 180, 300
HOST = "10.0.2.2"  # the host's loopback, in QEMU's network
MODULES = ("virtio_ring", "virtio", "virtio_mmio", "failover", "net_failover", "virtio_net")  # in their order
INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for m in {modules}; do insmod /$m.ko || echo "no $m"; done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
stty -F /dev/ttyS0 raw -echo
exec </dev/ttyS0 >/dev/ttyS0 2>&1
echo ready
while read -r order; do
	sh -c "$order" >/out 2>&1
	echo "status $?" >>/out
	cat /out
	echo done
done
"""


def modules_of(release):
    """{name: file}, of the kernel's package, which tools/fetch-kernel unpacks, or of this system."""
    cache = os.environ.get("MAYFLY_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mayfly")
    found = {}
    for root in (f"/lib/modules/{release}", f"{cache}/kernels/{release}/modules"):
        for path in glob.glob(f"{root}/**/*.ko", recursive=True):
            found.setdefault(os.path.basename(path)[:-3].replace("-", "_"), path)
    missing = [m for m in MODULES if m not in found]
    assert not missing, f"no modules {missing} of {release}: run tools/fetch-kernel"
    return {m: found[m] for m in MODULES}


def make_initramfs(directory, release, program):
    root = os.path.join(directory, "root")
    for name in ("bin", "dev", "proc", "sys"):
        os.makedirs(os.path.join(root, name))
    for name, path in modules_of(release).items():
        shutil.copy(path, os.path.join(root, name + ".ko"))
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin"))
    shutil.copy(program, os.path.join(root, "bin"))
    with open(os.path.join(root, "init"), "w") as f:
        f.write(INIT.format(modules=" ".join(MODULES)))
    os.chmod(f.name, 0o755)
    archive = os.path.join(directory, "initramfs")
    subprocess.run(f"find . | cpio --quiet -o -H newc >{archive}", shell=True, cwd=root, check=True)
    return archive


class Qemu:
    """.pid: of the process."""

    def __init__(self, directory, home, memory_mb, program):
        kernel = glob.glob(f"{home}/kernels/*/vmlinux")[0]
        release = os.path.basename(os.path.dirname(kernel))
        path = os.path.join(directory, "serial")
        self.process = subprocess.Popen([
            "qemu-system-x86_64", "-M", "microvm,acpi=on,pit=off,pic=off,rtc=off", "-enable-kvm", "-cpu", "host",
            "-smp", "1", "-m", f"{memory_mb}M", "-nodefaults", "-no-user-config", "-display", "none",
            "-kernel", kernel, "-initrd", make_initramfs(directory, release, program),
            "-append", "console=ttyS0 quiet panic=-1 tsc=reliable", "-no-reboot",
            "-serial", f"unix:{path},server=on,wait=off",
            "-netdev", "user,id=n", "-device", "virtio-net-device,netdev=n"])
        self.pid, self.text = self.process.pid, b""
        self.serial = socket.socket(socket.AF_UNIX)
        end = time.monotonic() + BOOT_S
        try:
            while self.serial.connect_ex(path):
                assert time.monotonic() < end and self.process.poll() is None, "QEMU does not start"
                time.sleep(0.01)
            self.until(b"ready", BOOT_S)
        except BaseException:
            self.end()
            raise

    def until(self, word, seconds):
        """The lines before the one that is just this word."""
        self.serial.settimeout(seconds)
        lines = []
        while True:
            while b"\n" not in self.text:
                try:
                    part = self.serial.recv(65536)
                except TimeoutError:
                    part = b""
                assert part, f"QEMU's guest does not answer: {lines} {self.text}"
                self.text += part
            line, self.text = self.text.split(b"\n", 1)
            if line.strip() == word:
                return lines
            lines.append(line.strip().decode(errors="replace"))

    def run(self, command):
        self.serial.sendall(command.encode() + b"\n")
        *lines, status = self.until(b"done", PATIENCE_S)
        assert status == "status 0", (command, lines, status)
        return "\n".join(lines)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.serial.close()
