"""What policies say of targets: for each policy, a letter for each target. The names and addresses are those of
outside.py. "o": open, "c": closed, "n": the name has no address."""
from outside import HERE, OTHER, PUBLIC, RESOLVER, THERE

ALL = "0.0.0.0/0"

# protocol, host, port
TARGETS = [
    ("tcp", PUBLIC, 7), ("tcp", PUBLIC, 443), ("tcp", PUBLIC, 22), ("tcp", OTHER, 7), ("tcp", RESOLVER, 7), ("udp", PUBLIC, 7),
    ("tcp", "good.example", 7), ("tcp", "good.example", 22), ("udp", "good.example", 7),
    ("tcp", "www.good.example", 7), ("tcp", "bad.example", 7), ("tcp", "alias.example", 7), ("tcp", "mixed.example", 7),
    ("tcp", "private.example", 7), ("tcp", "loop.example", 7), ("tcp", "meta.example", 7), ("tcp", "nothing.example", 7),
    ("tcp", THERE, 7), ("tcp", HERE, 7), ("tcp", "169.254.169.254", 80), ("tcp", "100.100.100.200", 7), ("tcp", "168.63.129.16", 7),
]

# PUBLIC: ports 7, 443, 22; OTHER; RESOLVER; PUBLIC by UDP | good.example: ports 7, 22; by UDP | www.good, bad (which is
# OTHER), alias (which is good), mixed (a private and a public address) | private, loop, meta | nothing | what is never
# dialled: THERE, HERE, metadata services
POLICIES = [
    ({}, "ooo o o o  ooo  oooo  nnn n  ccccc"),
    ({"denyOut": []}, "ooo o o o  ooo  oooo  nnn n  ccccc"),
    ({"allowOut": [PUBLIC]}, "ooo o o o  ooo  oooo  nnn n  ccccc"),
    ({"denyOut": [ALL]}, "ccc c c c  nnn  nnnn  nnn n  ccccc"),
    ({"internet": False}, "ccc c c c  nnn  nnnn  nnn n  ccccc"),
    ({"internet": False, "allowOut": ["bad.example"]}, "ccc c c c  nnn  nonn  nnn n  ccccc"),
    ({"internet": False, "allowOut": [PUBLIC]}, "ooo c c o  nnn  nnnn  nnn n  ccccc"),
    ({"allowOut": [PUBLIC], "denyOut": [ALL]}, "ooo c c o  nnn  nnnn  nnn n  ccccc"),
    ({"allowOut": [f"{PUBLIC}:7"], "denyOut": [ALL]}, "occ c c o  nnn  nnnn  nnn n  ccccc"),
    ({"allowOut": [f"{PUBLIC}:22", f"{PUBLIC}:443"], "denyOut": [ALL]}, "coo c c c  nnn  nnnn  nnn n  ccccc"),
    ({"allowOut": ["93.184.216.0/24"], "denyOut": [ALL]}, "ooo o c o  nnn  nnnn  nnn n  ccccc"),
    ({"denyOut": [OTHER]}, "ooo c o o  ooo  ocoo  nnn n  ccccc"),
    ({"allowOut": [PUBLIC], "denyOut": ["93.184.0.0/16"]}, "ooo c o o  ooo  ocoo  nnn n  ccccc"),
    ({"denyOut": ["0.0.0.0/1", "128.0.0.0/1"]}, "ccc c c c  ccc  cccc  nnn n  ccccc"),
    ({"dnsServers": []}, "ooo o o o  nnn  nnnn  nnn n  ccccc"),
    ({"dnsServers": [RESOLVER]}, "ooo o o o  ooo  oooo  nnn n  ccccc"),
    ({"allowOut": ["good.example"], "denyOut": [ALL]}, "ccc c c c  ooo  nnnn  nnn n  ccccc"),
    ({"allowOut": ["GOOD.example"], "denyOut": [ALL]}, "ccc c c c  ooo  nnnn  nnn n  ccccc"),
    ({"allowOut": ["good.example:7"], "denyOut": [ALL]}, "ccc c c c  oco  nnnn  nnn n  ccccc"),
    ({"allowOut": ["*.example"], "denyOut": [ALL]}, "ccc c c c  ooo  oooo  nnn n  ccccc"),
    ({"allowOut": ["*.good.example"], "denyOut": [ALL]}, "ccc c c c  nnn  onnn  nnn n  ccccc"),
    ({"allowOut": ["*"], "denyOut": [ALL]}, "ccc c c c  ooo  oooo  nnn n  ccccc"),
    ({"allowOut": ["good.example", OTHER], "denyOut": [ALL]}, "ccc o c c  ooo  nnnn  nnn n  ccccc"),
    ({"allowOut": ["good.example:22", f"{RESOLVER}:7"], "denyOut": [ALL]}, "ccc c o c  coc  nnnn  nnn n  ccccc"),
    ({"allowOut": ["private.example", "loop.example", "meta.example"], "denyOut": [ALL]}, "ccc c c c  nnn  nnnn  nnn n  ccccc"),
]


def policies():
    """[(the body of a change, a letter for each target)]"""
    for network, letters in POLICIES:
        body = {k: v for k, v in network.items() if k != "internet"}
        if "internet" in network:
            body["allow_internet_access"] = network["internet"]
        letters = letters.replace(" ", "")
        assert len(letters) == len(TARGETS), network
        yield body, letters
