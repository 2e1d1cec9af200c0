"""Runs in a sandbox: tries each of some targets, and says what became of it, in their order: "o" it echoes, "c" it cannot
be reached, "n" the name has no address. Its argument is JSON: [[protocol, host, port, seconds for an answer]]."""
import concurrent.futures
import json
import socket
import sys
import time

WORD = b"verdict"
CONNECT_S = 120  # a refusal comes at once


def echoes(s):
    got = b""
    while len(got) < len(WORD):
        piece = s.recv(len(WORD))
        if not piece:
            break
        got += piece
    return "o" if got == WORD else "c"


def by_tcp(address, _):
    with socket.create_connection(address, CONNECT_S) as s:
        s.sendall(WORD)
        return echoes(s)


def by_udp(address, seconds):
    """Asks again: datagrams may be lost."""
    end = time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(address)
        s.settimeout(1)
        while time.monotonic() < end:
            s.send(WORD)
            try:
                return echoes(s)
            except TimeoutError:
                pass
    return "c"


def verdict(target):
    protocol, host, port, seconds = target
    try:
        address = socket.getaddrinfo(host, port, socket.AF_INET)[0][4]
    except socket.gaierror:
        return "n"
    try:
        return (by_udp if protocol == "udp" else by_tcp)(address, seconds)
    except OSError:
        return "c"


with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print("".join(pool.map(verdict, json.loads(sys.argv[1]))))
