#!/usr/bin/env python3
"""usage: hostile_archives.py DIRECTORY CANARY PASSWD
Makes archives that try to reach CANARY, a file of the host, or more of the host than they should."""
import io
import os
import sys
import tarfile
import warnings
import zipfile

to, canary, passwd = sys.argv[1:]
warnings.simplefilter("ignore")  # of a zip with one name twice


class Archive:
    """A tar file with a shell and a list of users, as an image needs."""

    def __init__(self, name, mode="w", system=True):
        quick = {"compresslevel": 1} if mode == "w:gz" else {}
        self.tar = tarfile.open(os.path.join(to, name), mode, format=tarfile.PAX_FORMAT, **quick)
        if system:
            self.file("bin/sh", b"#!", mode=0o755)
            self.tar.add(passwd, "etc/passwd")

    def file(self, name, data=b"dead\n", **more):
        self.entry(name, tarfile.REGTYPE, data, size=len(data), **more)

    def entry(self, name, kind, data=b"", **more):
        info = tarfile.TarInfo(name)
        info.type = kind
        for key, value in more.items():
            setattr(info, key, value)
        self.tar.addfile(info, io.BytesIO(data))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tar.close()


UP = "../" * 12
with Archive("dots.tar") as a:
    a.file(UP + canary[1:])
with Archive("absolute.tar") as a:
    a.file(canary)
with Archive("through-link.tar") as a:
    a.entry("out", tarfile.SYMTYPE, linkname=UP + os.path.dirname(canary)[1:])
    a.file("out/canary")
with Archive("through-absolute-link.tar") as a:
    a.entry("out", tarfile.SYMTYPE, linkname=canary)
    a.file("out")
    a.entry("dir", tarfile.SYMTYPE, linkname=os.path.dirname(canary))
    a.file("dir/canary")
with Archive("hardlink-dots.tar") as a:
    a.entry("h", tarfile.LNKTYPE, linkname=UP + canary[1:])
with Archive("hardlink-absolute.tar") as a:
    a.entry("h", tarfile.LNKTYPE, linkname=canary)
with Archive("hardlink-to-link.tar") as a:
    a.entry("s", tarfile.SYMTYPE, linkname=canary)
    a.entry("h", tarfile.LNKTYPE, linkname="s")
    a.file("h")
with Archive("devices.tar") as a:
    a.entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=0, mode=0o666)
    a.entry("mem", tarfile.CHRTYPE, devmajor=1, devminor=1, mode=0o666)
    a.entry("pipe", tarfile.FIFOTYPE)
with Archive("bomb.tar", "w:gz") as a:
    a.file("bomb", b"A" * (80 << 20))
with Archive("endless-path.tar") as a:
    a.file("d/" * 2500 + "f")
with Archive("attributes.tar") as a:
    a.file("f", pax_headers={f"SCHILY.xattr.user.{i}": "x" for i in range(200)})
with Archive("lies.tar") as a:
    a.entry("f", tarfile.REGTYPE, b"x" * 4096, size=4096)
size = os.path.getsize(os.path.join(to, "lies.tar"))
with open(os.path.join(to, "lies.tar"), "r+b") as f:
    data = f.read()
    f.truncate(data.index(b"x" * 512) + 512)
with open(os.path.join(to, "junk.tar"), "wb") as f:
    f.write(bytes(range(256)) * 64)


def jar(name, *files):
    with zipfile.ZipFile(os.path.join(to, name + ".jar"), "w", zipfile.ZIP_DEFLATED) as z:
        for path, content in files:
            z.writestr(path, content)


def link(path):
    info = zipfile.ZipInfo(path)
    info.create_system = 3
    info.external_attr = 0o120777 << 16
    return info


jar("good", ("a/f", "x"))
jar("jar-dots", ("a/f", "x"), ("a/" + UP + canary[1:], "dead"))
jar("jar-absolute", ("a/" + canary, "dead"))
jar("jar-twice", ("a/f", "x"), ("a/f", "y"))
jar("jar-file-for-directory", ("a/f", "x"), ("a/f/g", "y"))
jar("jar-links", ("a/f", "x"), (link("a/out"), os.path.dirname(canary)))
jar("jar-bomb", ("a/f", b"A" * 1000))
with open(os.path.join(to, "jar-bomb.jar"), "r+b") as f:
    f.seek(f.read().index(b"PK\1\2") + 24)
    f.write((2000 << 20).to_bytes(4, "little"))  # unpacked, says the directory


def deb(name, data):
    """An ar archive, as dpkg makes them."""
    with open(os.path.join(to, name + ".deb"), "wb") as f:
        f.write(b"!<arch>\n")
        for member, content in (("debian-binary", b"2.0\n"), ("data.tar.xz", data)):
            f.write(f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
            f.write(content + b"\n" * (len(content) % 2))


def package(fill):
    with Archive("data.tar.xz", "w:xz", system=False) as a:
        fill(a)
    path = os.path.join(to, "data.tar.xz")
    with open(path, "rb") as f:
        data = f.read()
    os.unlink(path)
    return data


def linked(a):
    a.entry("./boot/vmlinuz-6.1", tarfile.SYMTYPE, linkname=canary)


def dotted(a):
    a.file("./lib/modules/6.1/" + UP + canary[1:] + ".ko")
    a.file("./boot/vmlinuz-" + UP + canary[1:])


def huge(a):
    info = tarfile.TarInfo("./boot/vmlinuz-6.1")
    info.size = 300 << 20
    a.tar.addfile(info)  # and no content: the size is too much already


deb("deb-link", package(linked))
deb("deb-dots", package(dotted))
deb("deb-bomb", package(huge))
deb("deb-junk", b"not an archive")
