"""Mutated programs: `.npu` files with bytes changed, with fields changed and checksums mended, and changed assembly.

`npusim run`, `disasm` and `asm` must end with 0 or with one line and 2. A program that was not changed must run after
saving as it ran before.
"""

from __future__ import annotations

import json
import random
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import npusim
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.errors import CompileError, GraphError
from npusim.isa.program.container import SECTIONS
from npusim.isa.program.program import Program

from ..damage import DAMAGES
from .child import Report
from .command import attempt
from .graphs import allowed, draw
from .hardware import random_hardware
from .harness import Kind
from .texts import some_place

PROGRAM, ASSEMBLY = "program.npu", "program.asm"
VALUES = (
    -(2**63),
    -(2**31),
    -1,
    0,
    1,
    2,
    3,
    15,
    255,
    256,
    4095,
    65535,
    65536,
    2**31,
    2**32 - 1,
    2**32,
    2**63,
)
WORDS = ("", "x", "conv_2d", "../../etc/passwd", "\x1b[31m", "a" * 5000, "int8", "none", "\u202e")

_HEAD, _ROW = struct.Struct("<8sIII"), struct.Struct("<16sQQI")


def base(seed: int) -> Program | None:
    """A program of a random model on random hardware, None where the model is refused."""
    machine = random_hardware(np.random.default_rng([seed, 2]))
    _, data = draw(seed)
    try:
        return npusim.compile(tflite.parse(data, f"seed_{seed}"), machine)
    except (CompileError, GraphError) as refusal:
        if not allowed(refusal):
            raise
        return None


# Sections, with checksums that fit again


def sections(data: bytes) -> dict[str, bytes]:
    """The sections of a file by name."""
    rows = [_ROW.unpack_from(data, _HEAD.size + i * _ROW.size) for i in range(len(SECTIONS))]
    return {
        name: data[offset : offset + size] for name, (_, offset, size, _) in zip(SECTIONS, rows, strict=True)
    }


def file_of(bodies: dict[str, bytes], head: bytes) -> bytes:
    """A file with these sections and right checksums."""
    offset, rows = _HEAD.size + len(SECTIONS) * _ROW.size, b""
    for name in SECTIONS:
        rows += _ROW.pack(name.encode(), offset, len(bodies[name]), zlib.crc32(bodies[name]))
        offset += len(bodies[name])
    magic, version, count, _ = _HEAD.unpack_from(head)
    return _HEAD.pack(magic, version, count, zlib.crc32(rows)) + rows + b"".join(bodies.values())


def whole(data: bytes, rng: random.Random) -> bytes:
    """Any bytes of the file."""
    changed = bytearray(data)
    rng.choice(DAMAGES)(changed, rng)
    return bytes(changed)


def inside(data: bytes, rng: random.Random) -> bytes:
    """Bytes of one section."""
    bodies = sections(data)
    name = rng.choice([name for name in SECTIONS if len(bodies[name]) > 16])
    changed = bytearray(bodies[name])
    if name == "code" and rng.randrange(2):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    else:
        rng.choice(DAMAGES)(changed, rng)
    return file_of(bodies | {name: bytes(changed)}, data)


def metadata(data: bytes, rng: random.Random) -> bytes:
    """One to three values of the metadata."""
    bodies = sections(data)
    tree = json.loads(bodies["metadata"])
    for _ in range(rng.choice((1, 1, 2, 3))):
        change(tree, rng)
    return file_of(bodies | {"metadata": json.dumps(tree).encode()}, data)


def change(tree: Any, rng: random.Random) -> None:
    """Change, remove or double one value somewhere below."""
    found = some_place(tree, rng, stops=8)
    if found is None:
        return
    tree, key = found
    below = tree[key]
    kind = rng.randrange(8)
    if kind == 0:
        del tree[key]
    elif kind == 1:
        tree[key] = [below, below]
    elif kind == 2:
        tree[key] = rng.choice((None, True, {}, [], 1e300, -0.5))
    elif isinstance(below, str):
        tree[key] = rng.choice(WORDS)
    else:
        tree[key] = rng.choice(VALUES)


def assembly(text: str, rng: random.Random) -> str:
    """Numbers and words of the text, lines twice or not at all."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind = rng.randrange(4)
        lines = text.splitlines(keepends=True)
        at = rng.randrange(len(lines))
        if kind == 0:
            lines[at] *= rng.choice((0, 2))
        elif kind == 1:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            numbers = list(re.finditer(r"-?\d+", lines[at]))
            if numbers:
                chosen = rng.choice(numbers)
                value = rng.choice((str(rng.choice(VALUES)), str(int(chosen[0]) + rng.choice((-1, 1))), "x"))
                lines[at] = lines[at][: chosen.start()] + value + lines[at][chosen.end() :]
        text = "".join(lines)
        if not text:
            break
    return text


def run(seed: int, folder: Path, report: Report) -> None:
    """Change a program and run it."""
    rng = random.Random(f"program {seed}")
    program = base(seed)
    if program is None:
        return
    path = folder / PROGRAM
    npusim.save_program(program, path)
    kind = rng.randrange(8)
    if kind == 0:
        _unchanged(program, path, report)
        return
    if kind < 3:
        source = folder / ASSEMBLY
        if attempt(report, ["disasm", str(path), "-o", str(source)]):
            return
        source.write_text(assembly(source.read_text("utf-8"), rng), "utf-8")
        path.unlink()
        if attempt(report, ["asm", str(source), "-o", str(path)]):
            return
    else:
        change = rng.choice((whole, inside, inside, metadata, metadata))
        path.write_bytes(change(path.read_bytes(), rng))
    attempt(report, ["run", str(path)])
    attempt(report, ["disasm", str(path)])


def _unchanged(program: Program, path: Path, report: Report) -> None:
    """Saved and loaded, a program gives the same bytes, cycles and energy."""
    report.note("run")
    before, after = npusim.simulate(program), npusim.simulate(npusim.load_program(path))
    same = [a.tobytes() == b.tobytes() for a, b in zip(before.outputs, after.outputs, strict=True)]
    if not all(same):
        report.note("wrong bytes", "after saving and loading")
    if (int(before.cycles), float(before.energy_uj)) != (int(after.cycles), float(after.energy_uj)):
        report.note("broken invariant", "other cycles or energy after saving and loading")


KIND = Kind("mutated programs by `npusim run`, `disasm` and `asm`", run)
