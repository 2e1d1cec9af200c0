"""The registries that this machine's clients are set up for, and how guests reach them."""
import ipaddress
import shutil
import socket
import subprocess
import urllib.parse

from served import Skip

LOCAL_AUTHORITIES = "/usr/local/share/ca-certificates/*.crt"


def setting(*command):
    """What a client of this machine says of its configuration; None: nothing."""
    if not shutil.which(command[0]):
        return None
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return out if out.startswith("http") else None


def names_of(*urls):
    return sorted({urllib.parse.urlsplit(url).hostname for url in urls})


def addresses(name, port):
    """Those that can be connected to."""
    try:
        found = {a[4][0] for a in socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)}
        for address in found:
            socket.create_connection((address, port), timeout=30).close()
    except OSError as e:
        raise Skip(f"this machine does not reach its registry: {e}") from e
    return found


def open_ways(d, urls):
    """Registries may be at addresses that are nowhere else allowed."""
    private = set()
    for url in map(urllib.parse.urlsplit, urls):
        found = addresses(url.hostname, url.port or {"http": 80, "https": 443}[url.scheme])
        private |= {f"--egress-allow-private={a}/32" for a in found if not ipaddress.ip_address(a).is_global}
    if private - set(d.options):
        d.stop()
        d.options += tuple(sorted(private - set(d.options)))
        d.start()
