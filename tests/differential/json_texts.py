"""Texts of JSON that readers may take in different ways. A value is a Python one, but objects are lists `Members` of
(name, value), so that names may stand twice, and `Raw` is text that goes out as it is."""
import json

LONG_S, KELVIN = "\u017f", "\u212a"
BLANKS = ["", " ", "\t", "\n", "\r\n", "  ", "\f", "\v", "\u00a0", "\u2003", "/**/", "//\n", "\x00", "\ufeff"]
NUMBERS = ["0", "-0", "1", "1.0", "1e0", "10E-1", "01", "+1", "1.", ".5", "1e400", "-1e400", "9007199254740992",
           "9007199254740993", "9007199254740993.0", "9007199254740992.5", "18446744073709551616", "9223372036854775807",
           "9223372036854775808", "1" + "0" * 400, "0x10", "1_0", "NaN", "Infinity", "-Infinity", "1e-400", "--1"]
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "latin-1"]


class Members(list):
    """An object."""


class Raw(str):
    pass


def is_rare(random, one_of):
    return random.randrange(one_of) == 0


def write_string(random, text):
    out = []
    for c in text:
        if is_rare(random, 60) and c < "\x80":
            out.append(random.choice([f"\\u{ord(c):04x}", f"\\u{ord(c):04X}", f"\\{c}", f"\\x{ord(c):02x}"]))
        elif c in '"\\' or c < " ":
            out.append(json.dumps(c)[1:-1])
        else:
            out.append(c)
    return '"' + "".join(out) + '"'


def blank(random, odd):
    return random.choice(BLANKS) if odd and is_rare(random, 12) else ""


def write(random, value, odd):
    """The text of a value. odd: with blanks of all kinds."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Members):
        inner = [f"{blank(random, odd)}{write_string(random, k)}{blank(random, odd)}:{write(random, v, odd)}" for k, v in value]
        return "{" + ",".join(inner) + blank(random, odd) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write(random, v, odd) for v in value) + blank(random, odd) + "]"
    if isinstance(value, str):
        return write_string(random, value)
    return json.dumps(value)


# --- what changes ---


def respelled(random, name):
    """A name that some reader may take for this one."""
    if not name:
        return name
    at = random.randrange(len(name))
    ways = [
        name.upper, name.title, lambda: name[:at] + name[at].swapcase() + name[at + 1:],
        lambda: name.replace("s", LONG_S, 1), lambda: name.replace("k", KELVIN, 1),
        lambda: name[:at] + random.choice("_-. \u200b\u00ad\ufeff\0") + name[at:],
        lambda: name + random.choice([" ", "\0", "\u200b", "\u0301", "[]", "."]), lambda: " " + name,
        lambda: name[:at] + chr(ord(name[at]) + 0xfee0) + name[at + 1:] if "!" <= name[at] <= "~" else name,
        lambda: name[:at] + "\u0131" + name[at + 1:] if name[at] == "i" else name.replace("_", ""),
    ]
    return random.choice(ways)()


def objects_of(value):
    """All objects in a value that have members, outermost first."""
    found = [value] if isinstance(value, Members) and value else []
    if isinstance(value, Members):
        inner = [v for _, v in value]
    else:
        inner = value if isinstance(value, list) else []
    for v in inner:
        found += objects_of(v)
    return found


def odd_value(random, value):
    return random.choice([None, True, False, [], [value], Members(), Members([("name", value)]), Raw(random.choice(NUMBERS)),
                          Raw('"\\ud800"'), Raw('"\\udc00\\ud800"'), "", "\0", Raw("'x'"), str(value)])


def change(random, tree, other):
    """Changes one member somewhere in the tree. other(name): a value that the member may have instead."""
    found = objects_of(tree)
    if not found:
        return
    members = random.choice(found)
    at = random.randrange(len(members))
    name, value = members[at]
    where = random.choice([0, at, at + 1, len(members)])
    way = random.randrange(7)
    if way == 0:
        members.insert(where, (name, other(name)))
    elif way <= 3:
        members.insert(where, (respelled(random, name), other(name)))
    elif way == 4:
        members[at] = (respelled(random, name), value)
    elif way == 5:
        members[at] = (name, other(name))
    else:
        members[at] = (name, odd_value(random, value))


def damaged(random, text):
    """Bytes of a text, perhaps with what is no UTF-8, or with more behind it."""
    data = text.encode("utf-8", "surrogatepass")
    way = random.randrange(10)
    at = random.randrange(len(data) + 1)
    if way == 0:
        return data[:at] + random.choice([b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x84", b"\xf4\x90\x80\x80", b"\0"]) + data[at:]
    if way == 1:
        return data[:at] + data[at + 1:]
    if way == 2:
        return text.encode(random.choice(ENCODINGS), "replace")
    if way == 3:
        return data + random.choice([b"x", b"\0", b"{}", b",", data, b"\n" + data, b"]", b"}"])
    if way == 4:
        return random.choice([b"\xef\xbb\xbf", b"\0", b"\xfe\xff", b")]}',\n", b"\x1e", b"//\n"]) + data
    return data


def body_of(random, tree, other):
    """Bytes of a tree after a few changes."""
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3])):
        change(random, tree, other)
    text = write(random, tree, is_rare(random, 3))
    return damaged(random, text) if is_rare(random, 4) else text.encode("utf-8", "surrogatepass")
