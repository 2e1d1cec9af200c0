"""Certificates for tests, by openssl: authorities, and what they issue."""
import os
import subprocess

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def text(path):
    with open(path) as f:
        return f.read()


class Authority:
    """names: the only ones that it may be for, and what is below them."""

    def __init__(self, directory, name, names=()):
        self.directory, self.name, self.count = directory, name, 0
        self.file, self.key = (os.path.join(directory, f"{name}.{kind}") for kind in ("pem", "key"))
        extensions = ["basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign"]
        if names:
            extensions.append("nameConstraints=critical," + ",".join(f"permitted;DNS:{n}" for n in names))
        openssl("req", "-x509", *NEW_KEY, "-keyout", self.key, "-out", self.file, "-days", "30", "-subj", f"/CN={name}",
                *(part for e in extensions for part in ("-addext", e)))

    def issue(self, *names, days=30):
        """The files of a certificate and its key. days below 0: it has expired."""
        self.count += 1
        base = os.path.join(self.directory, f"{self.name}-{self.count}")
        with open(base + ".ext", "w") as f:
            f.write("subjectAltName=" + ",".join(f"DNS:{n}" for n in names))
        openssl("req", "-new", *NEW_KEY, "-keyout", base + ".key", "-out", base + ".csr", "-subj", "/CN=test")
        openssl("x509", "-req", "-in", base + ".csr", "-CA", self.file, "-CAkey", self.key, "-CAcreateserial",
                "-days", str(days), "-extfile", base + ".ext", "-out", base + ".pem")
        return base + ".pem", base + ".key"

    def as_member(self):
        """As the policy of a worker has it: `ca`."""
        return {"certificate": text(self.file), "key": text(self.key)}
