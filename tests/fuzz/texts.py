"""Changes of text files that somebody wrote: values at and beyond every limit, lines twice, bytes of any kind."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = (
    *(
        "0",
        "-0.0",
        "1",
        "-1",
        "2",
        "3",
        "0.5",
        "1e-3",
        "1e-9",
        "5e-324",
        "1e15",
        "1e16",
        "1e100",
        "1e308",
        "nan",
    ),
    *("inf", "-inf", "255", "65536", "2147483648", "9223372036854775807", "18446744073709551616", "9" * 400),
    *("0x10", "1_000", "1e999", "4096", "1024", "1e6", "0.001", "10000", "0.0009", "10001"),
)
WORDS = (
    "",
    "x",
    "name",
    "edge-128",
    "../x",
    "/dev/zero",
    "\x1b[31m",
    "\u202e",
    "\x00",
    "a" * 3000,
    "é",
    "=1+1",
    "\n",
)
VALUES = ("true", "false", "[]", "{}", "[1, 2]", "{ from = 1, to = 9, step = 2 }", "1979-05-27", '""', "null")


def value(rng: random.Random) -> str:
    """A TOML value, or something that is none."""
    kind = rng.randrange(8)
    if kind < 5:
        return rng.choice(NUMBERS)
    return json.dumps(rng.choice(WORDS)) if kind < 7 else rng.choice(VALUES)


def changed_lines(text: str, rng: random.Random) -> str:
    """Values replaced, lines twice, gone or exchanged, keys misspelt."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not lines:
            break
        at, kind = rng.randrange(len(lines)), rng.randrange(6)
        key, equals, _ = lines[at].partition("=")
        if kind < 3 and equals:
            lines[at] = f"{key}= {value(rng)}\n"
        elif kind == 3:
            lines[at] *= rng.choice((0, 2))
        elif kind == 4 and equals:
            lines[at] = f"{_misspelt(key.strip(), rng)} = {value(rng)}\n"
        else:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines)


def _misspelt(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word) + 1)
    return word[:at] + rng.choice(("", "x", "_", ".", '"', "é")) + word[at + rng.randrange(2) :]


def changed_numbers(text: str, rng: random.Random) -> str:
    """One to three numbers replaced, wherever they stand."""
    for _ in range(rng.choice((1, 1, 3))):
        found = list(re.finditer(r"-?\d+(\.\d+)?(e-?\d+)?", text))
        if not found:
            break
        chosen = rng.choice(found)
        text = text[: chosen.start()] + rng.choice(NUMBERS) + text[chosen.end() :]
    return text


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, left out, put in or repeated."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, kind = rng.randrange(len(found) + 1), rng.randrange(5)
        if kind == 0 and found:
            found[min(at, len(found) - 1)] = rng.randrange(256)
        elif kind == 1:
            del found[at : at + rng.choice((1, 2, 10, 100))]
        elif kind == 2:
            found[at:at] = rng.choice((b"\0", b"\xff", b'"', b"[", b"{", b"\n", b"=", b"\\", b"'''", b"# "))
        elif kind == 3:
            found[at:at] = found[max(0, at - 20) : at] * rng.choice((1, 3))
        else:
            found[at:at] = rng.choice((b"[", b"{", b"[[", b"-", b"(", b"{a=")) * rng.choice((2, 100, 5000))
    return bytes(found)


Mutation = Callable[[random.Random], bytes]


def mutant(text: str, rng: random.Random) -> bytes:
    """A changed file, by its lines, its numbers or its bytes."""
    kind = rng.randrange(8)
    if kind < 4:
        return changed_lines(text, rng).encode("utf-8", "surrogatepass")
    if kind < 7:
        return changed_numbers(text, rng).encode()
    return changed_bytes(text.encode(), rng)


def some_place(tree: Any, rng: random.Random, stops: int) -> tuple[Any, Any] | None:
    """A table or list somewhere below and one of its keys; None where it is empty. One in `stops` goes no deeper."""
    while True:
        keys: list[Any] = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return None
        key = rng.choice(keys)
        below = tree[key]
        if not (isinstance(below, dict | list) and below and rng.randrange(stops)):
            return tree, key
        tree = below


def changed_tree(tree: Any, rng: random.Random) -> None:
    """One value somewhere below a table or list changed, removed or doubled; of JSON."""
    found = some_place(tree, rng, stops=5)
    if found is None:
        return
    tree, key = found
    below = tree[key]
    kind = rng.randrange(6)
    if kind == 0:
        del tree[key]
    elif kind == 1:
        tree[key] = [below, below]
    elif kind == 2:
        tree[key] = rng.choice((None, True, {}, [], "", "x", "\x1b[31m", "a" * 3000))
    elif isinstance(tree, dict) and kind == 3:
        tree[rng.choice(WORDS)] = tree.pop(key)
    else:
        tree[key] = rng.choice((0, -1, 1, 2**31, 2**53 + 1, 2**63, 10**400, 1e308, 1e-308, -0.5, 0.1))
