"""Files of each kind that mayfly-unpack reads, and the commands that have it read them (for test_filters)."""
import io
import json
import os
import shutil
import tarfile
import zipfile

KERNEL = os.path.join(os.environ.get("MAYFLY_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mayfly"), "kernels/cloud")


def add(archive, name, data, mode=0o644):
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))


def write_tar(path, compression):
    """A root file system that image-tool takes; large enough that its pieces are read one by one."""
    with tarfile.open(path, f"w:{compression}") as t:
        add(t, "bin/sh", os.urandom(1 << 18), 0o755)
        add(t, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        add(t, "home/\u00e4", b"a name that is not ASCII")


def write_deb(path):
    """A package with a kernel, as far as the reader of packages is concerned."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as t:
        add(t, "./boot/vmlinuz-6.1.0", os.urandom(1 << 20))
        add(t, "./lib/modules/6.1.0/modules.builtin", b"")
    with open(path, "wb") as f:
        f.write(b"!<arch>\n")
        for name, content in (("debian-binary", b"2.0\n"), ("data.tar.xz", data.getvalue())):
            f.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content)
            f.write(b"\n" * (len(content) % 2))


def write_jar(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a/file", os.urandom(1 << 20))


def write_layout(path):
    """An OCI layout whose index leads to nothing."""
    os.mkdir(path)
    with open(os.path.join(path, "index.json"), "w") as f:
        json.dump({"manifests": [{"digest": "sha256:" + 64 * "0", "size": 2, "annotations": {"x": 100000 * "y"}}]}, f)


def sure(command):
    """Also what fails has been read."""
    return ["sh", "-c", '"$@" >/dev/null 2>&1; true', "sh", *command]


def commands(directory, build):
    """(name, command) for each kind of file."""
    tool = os.path.abspath(os.path.join(build, "src/image/image-tool"))
    for compression in ("", "gz", "bz2", "xz"):
        path = os.path.join(directory, f"t.tar{compression}")
        write_tar(path, compression)
        recipe = os.path.join(directory, f"{compression or 'plain'}.recipe")
        with open(recipe, "w") as f:
            f.write(f"name = t\nsource = tar\npath = {path}\ndisk = 64M\n")
        yield f"tar{compression}", [tool, "build", recipe]
    with open(os.path.join(directory, "t.targz"), "r+b") as f:
        f.truncate(os.path.getsize(f.name) // 2)
    yield "damaged", sure([tool, "build", os.path.join(directory, "gz.recipe")])
    jar, deb = os.path.join(directory, "a.jar"), os.path.join(directory, "a.deb")
    write_jar(jar)
    write_deb(deb)
    yield "archive", [tool, "unpack", jar, "a", os.path.join(directory, "tree")]
    layout = os.path.join(directory, "layout")
    write_layout(layout)
    yield "document", sure([os.path.abspath(os.path.join(build, "src/oci/oci-tool")), "tree", f"oci:{layout}", directory])
    yield "deb", sure([tool, "kernel", "/bin/busybox", deb])
    if os.path.exists(f"{KERNEL}/vmlinuz"):
        yield "kernel", [tool, "kernel", "/bin/busybox", f"{KERNEL}/vmlinuz", f"{KERNEL}/modules"]
    if shutil.which("zstd"):
        path = os.path.join(directory, "t.tar")
        os.system(f"zstd -q {path} -o {path}.zst")
        recipe = os.path.join(directory, "zst.recipe")
        with open(recipe, "w") as f:
            f.write(f"name = t\nsource = tar\npath = {path}.zst\ndisk = 64M\n")
        yield "zst", [tool, "build", recipe]
