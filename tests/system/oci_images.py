"""Makes images for tests, without any tool of others: layers, OCI layouts, what `docker save` writes."""
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
EPOCH = 1700000000


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layer:
    """A tar archive in memory."""

    def __init__(self):
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode="w", format=tarfile.PAX_FORMAT,
                                encoding="utf-8", errors="surrogateescape")

    def add(self, name, kind=tarfile.REGTYPE, data=b"", xattrs=None, **more):
        info = tarfile.TarInfo(name)
        info.type = kind
        info.size = len(data)
        info.mtime = EPOCH
        info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o777 if kind == tarfile.SYMTYPE else 0o644
        for key, value in more.items():
            setattr(info, key, value)
        info.pax_headers = {f"SCHILY.xattr.{k}": v for k, v in (xattrs or {}).items()}
        self.tar.addfile(info, io.BytesIO(data))
        return self

    def dir(self, name, **more):
        return self.add(name, tarfile.DIRTYPE, **more)

    def file(self, name, data=b"text\n", **more):
        return self.add(name, data=data, **more)

    def symlink(self, name, to, **more):
        return self.add(name, tarfile.SYMTYPE, linkname=to, **more)

    def link(self, name, to, **more):
        return self.add(name, tarfile.LNKTYPE, linkname=to, **more)

    def bytes(self):
        self.tar.close()
        return self.data.getvalue()


def compress(data, how):
    if how == "gzip":
        return gzip.compress(data, 1, mtime=0), "+gzip"
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-1"], input=data, stdout=subprocess.PIPE, check=True).stdout, "+zstd"
    return data, ""


def descriptor(data, media, **more):
    return {"mediaType": media, "digest": digest(data), "size": len(data), **more}


class Image:
    """Blobs and their manifest. layers: bytes of tar archives."""

    def __init__(self, layers, how="", config=None, **more):
        self.blobs = {}
        packed = [compress(layer, how) for layer in layers]
        self.config = json.dumps({"os": "linux", "architecture": "amd64", "config": config or {},
                                  "rootfs": {"type": "layers", "diff_ids": [digest(l) for l in layers]},
                                  **more}).encode()
        self.layers = list(layers)
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": self.put(self.config, CONFIG),
            "layers": [self.put(data, LAYER + suffix) for data, suffix in packed]}).encode()
        self.root = self.put(self.manifest, MANIFEST)

    def put(self, data, media, **more):
        self.blobs[digest(data)] = data
        return descriptor(data, media, **more)

    def layout(self, path, name="latest"):
        os.makedirs(os.path.join(path, "blobs/sha256"))
        for key, data in self.blobs.items():
            write(os.path.join(path, "blobs/sha256", key[7:]), data)
        root = {**self.root, "annotations": {"org.opencontainers.image.ref.name": name}}
        write(os.path.join(path, "index.json"), json.dumps({"schemaVersion": 2, "manifests": [root]}).encode())
        write(os.path.join(path, "oci-layout"), b'{"imageLayoutVersion":"1.0.0"}')
        return path

    def saved(self, path, tag="team/app:1"):
        """docker save, as it was for years: a directory for each layer, equal ones linked."""
        out = Layer()
        names, seen = [], {}
        for i, data in enumerate(self.layers):
            name = f"{i:064x}/layer.tar"
            names.append(name)
            if digest(data) in seen:
                out.symlink(name, "../" + seen[digest(data)])
            else:
                out.file(name, data)
                seen[digest(data)] = name
        config = hashlib.sha256(self.config).hexdigest() + ".json"
        out.file(config, self.config)
        out.file("manifest.json", json.dumps([{"Config": config, "RepoTags": [tag], "Layers": names}]).encode())
        write(path, out.bytes())
        return path


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
