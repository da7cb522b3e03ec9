"""A seeded mutator: what happens to a line on its way through disks, editors, exports and hostile hands; and to a JSON record."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

#: What stands between fields in some format.
_DELIMITERS = (b"|", b",", b";", b" ", b"\x02", b"^^|")
FRAGMENTS: tuple[bytes, ...] = (
    b"",
    b" ",
    b"0",
    b"-1",
    b"-0",
    b"+5",
    b"1e300",
    b"-1e300",
    b"1e-320",
    b"9" * 25,
    b"9" * 400,
    b"0x1F",
    b"1_000",
    b"nan",
    b"inf",
    b"-inf",
    b"None",
    b"Unknown",
    b"N/A",
    b"null",
    b"true",
    b"1970-01-01T00:00:00",
    b"2024-03-31T02:30:00",
    b"2024-10-27T02:30:00",
    b"2024-02-30T00:00:00",
    b"9999-12-31T23:59:59",
    b"0001-01-01T00:00:00",
    b"2024-03-01 10:00:00+99:99",
    b"2024-03-01T10:00:00Z",
    b"20240301",
    b"1709287200",
    b"1709287200000",
    b"-5-00:00:00",
    b"365-00:00:00",
    b"99999999-23:59:59",
    b"00:00:00",
    b"UNLIMITED",
    b"Partition_Limit",
    b"12_[1-99999999]",
    b"12_[0-3%2]",
    b"12+1",
    b"60.batch",
    b"cn[001-999999999]",
    b"cn[[]",
    b"gres/gpu=99999999999999999999",
    b"gres/gpu:a100=4,gres/gpu=4",
    b"cpu=,mem=G,node=-1",
    b"4Gn",
    b"20H",
    b"CANCELLED by ",
    b'["COMPLETED"]',
    b"[" * 300,
    "é\u202e\u2028".encode(),
    b"\xc3",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x00",
    b"\x1b[31m",
    b"\x1c",
    b"\x1d",
    b"\x1f",
    b"\x85",
    b'"',
    b"'",
    b"\\",
    b"\t",
    b"=cmd|'/C calc'!A0",
    b"<script>alert(1)</script>",
    b"x" * 5000,
)
_LINE_ENDS = (b"\n", b"\r\n", b"\r", b"\n\n", b"\x0b", b"\x0c")


def mutated_line(line: bytes, other: bytes, draw: Random) -> bytes:
    """Return the line changed in one to three ways; `other` is another line of the same file."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        line = draw.choice(_CHANGES)(line, other, draw)
    return line


def _flip(line: bytes, _other: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(line) + 1)
    return line[:at] + bytes([draw.randrange(256)]) + line[at + 1 :]


def _delete(line: bytes, _other: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(line) + 1)
    return line[:at] + line[at + draw.randrange(1, 9) :]


def _insert(line: bytes, _other: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(line) + 1)
    return line[:at] + draw.choice(FRAGMENTS) + line[at:]


def _cut(line: bytes, _other: bytes, draw: Random) -> bytes:
    return line[: draw.randrange(len(line) + 1)]


def _splice(line: bytes, other: bytes, draw: Random) -> bytes:
    return line[: draw.randrange(len(line) + 1)] + other[draw.randrange(len(other) + 1) :]


def _break(line: bytes, _other: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(line) + 1)
    return line[:at] + draw.choice(_LINE_ENDS) + line[at:]


def _digit(line: bytes, _other: bytes, draw: Random) -> bytes:
    places = [at for at, byte in enumerate(line) if 48 <= byte < 58]
    if not places:
        return line
    at = draw.choice(places)
    return line[:at] + draw.choice((b"9", b"0", b"-", b"99999999", b".")) + line[at + 1 :]


def _field(line: bytes, other: bytes, draw: Random) -> bytes:
    """Change whole fields: another value, one left out, one doubled, two changed over, all moved by one."""
    delimiter = max(_DELIMITERS, key=line.count)
    fields, theirs = line.split(delimiter), other.split(delimiter)
    at, to = draw.randrange(len(fields)), draw.randrange(len(fields))
    kind = draw.randrange(6)
    if kind <= 1:
        fields[at] = draw.choice(FRAGMENTS)
    elif kind == 2:
        fields[at] = draw.choice(theirs)
    elif kind == 3:
        del fields[at]
    elif kind == 4:
        fields.insert(at, fields[to])
    else:
        fields[at], fields[to] = fields[to], fields[at]
    return delimiter.join(fields)


_CHANGES: tuple[Callable[[bytes, bytes, Random], bytes], ...] = (
    _flip,
    _delete,
    _insert,
    _cut,
    _splice,
    _break,
    _digit,
    _field,
    _field,
    _field,
)

_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**25,
    1e308,
    -1e308,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "None",
    "x",
    "\ud800",
    "\x00",
    "é\u2028",
    "9" * 30,
    "2024-03-31 02:30:00",
    "2024-02-30",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"set": True},
    {"set": True, "infinite": False, "number": -5},
    {"set": "yes", "number": []},
    ["COMPLETED", 7],
    "0xFFFFFFFFFF",
    "[0-9999999]",
)


def mutated_record(record: Any, draw: Random) -> Any:
    """Return a JSON value of which something, at some depth, is another value, absent, renamed or doubled."""
    changed = json.loads(json.dumps(record))
    for _ in range(draw.choice((1, 1, 2, 3))):
        places = list(_places(changed))
        if not places:
            return draw.choice(_VALUES)
        holder, key = draw.choice(places)
        kind = draw.randrange(5)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[str(key) + "_"] = holder.pop(key)
        elif kind == 2 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        else:
            holder[key] = copy.deepcopy(draw.choice(_VALUES))
    return changed if draw.random() < 0.98 else draw.choice(_VALUES)


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)
