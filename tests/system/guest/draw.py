"""Runs in a sandbox: what must differ from every other's, drawn by this process, which began just now."""
import json
import os
import random
import socket
import ssl
import sys
import threading
import uuid


def shake():
    """A TLS handshake over loopback, its certificate verified; the server's Finished, which depends on
    all random numbers of both sides."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.maximum_version = ssl.TLSVersion.TLSv1_2  # the last whose Finished can be asked for
    server.load_cert_chain("/tls.pem")
    client = ssl.create_default_context(cafile="/tls.pem")

    def serve():
        s = server.wrap_socket(listener.accept()[0], server_side=True)
        s.sendall(s.recv(64))
        s.close()

    t = threading.Thread(target=serve)
    t.start()
    c = client.wrap_socket(socket.create_connection(listener.getsockname()), server_hostname="localhost")
    c.sendall(b"echo")
    assert c.recv(64) == b"echo"
    t.join()
    return c.get_channel_binding("tls-unique").hex()


def text(path):
    with open(path) as f:
        return f.read().strip()


with open("/dev/urandom", "rb") as device:
    urandom = device.read(16).hex()
json.dump({
    "random": {
        "/dev/urandom": urandom,
        "getrandom": os.getrandom(16).hex(),
        "the kernel's uuid": text("/proc/sys/kernel/random/uuid"),
        "uuid": str(uuid.uuid4()),
        "ssl.RAND_bytes": ssl.RAND_bytes(16).hex(),
        "random.random": random.random(),
        "TLS": shake(),
    },
    "who": {
        "hostname": socket.gethostname(),
        "machine-id": text("/etc/machine-id"),
        "boot_id": text("/proc/sys/kernel/random/boot_id"),
    },
}, sys.stdout)
