"""Keeps documents true: whole pages (`PAGES`), parts of pages (`PARTS`), outputs that documents show, drawings.

    python docs/generate.py

Code blocks say what they are in their first line: ```toml NAME (json, csv) is a file that later blocks use,
```console holds commands ("$ ...") each followed by what it prints, ```python is executed, and a ```text block
right behind it is what it prints. An output that ends with a line "..." is shown up to there. All blocks run in
order, in one folder, which holds docs/spaces and nothing else, and one Python namespace. tests/test_docs.py does the
same and compares. A block with a path (```python kernels/.../swish.py) shows an addition to the sources; the test
makes it in a copy.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import npusim
from npusim.isa.base.fields import Section
from npusim.isa.hardware.agreement import standing
from npusim.isa.hardware.file import hardware, list_presets, to_flat
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import FurtherMemory
from npusim.isa.hardware.parameters import Parameter, memory_parameters, parameters
from npusim.reports import json_schema
from npusim.reports.words.claims import ERRORS, in_columns
from npusim.reports.words.quantities import markdown
from npusim.verification import litert

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path += [str(ROOT), str(DOCS)]  # the table of rooms in tests, and the drawings
WITH_OUTPUT = (
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in (
            "run",
            "python",
            "convolution",
            "explore",
            "hal",
            "nnadapter",
            "litert",
            "transformers",
            "serving",
            "systems",
        )
    ),
)
"""Documents whose code blocks are run."""

NEEDS_LITERT = DOCS / "litert.md"
"""The one of them that only runs where LiteRT is installed."""

_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"\d+\.\d+ s\b")
_OMITTED = "..."


# docs/operators.md


def operators_page() -> str:
    """Return the page of operators by element type and unit, and of the operations of NN HAL and NNAdapter."""
    from npusim.cli.operators_table import coverage, operations, standard
    from npusim.reports.run.coverage import page

    rows = coverage()
    return _OPERATORS + page(rows, operations(), standard(rows)) + "\n".join(["", *_schemes()])


SCHEMES = ("int8", "int16x8", "int16 in ONNX", "dynamic range")


def scheme_cells() -> dict[str, tuple[str, ...]]:
    """Return the units that compute a TFLite operator, by operator, for each of `SCHEMES`.

    "host" stands for no unit, "-" for a scheme that lacks the operator.
    """
    from npusim.cli.operators_table import coverage
    from npusim.frontends.tflite.export.subgraph_tables import TYPES
    from npusim.frontends.tflite.operators import OPERATORS
    from npusim.kernels.table import operator

    # The type of the first operand where that is not the one that a scheme quantizes.
    first = dict.fromkeys(("SELECT", "SELECT_V2"), "bool")
    first |= dict.fromkeys(("EMBEDDING_LOOKUP", "HASHTABLE_LOOKUP"), "int32")
    rows, cells = {row.op: row for row in coverage()}, {}
    for code, types in sorted(TYPES.items()):
        if code == "CAST":  # it looks at no scale
            continue
        row = rows[OPERATORS[code].op]
        entry = operator(row.op)
        unaided = "simpler operators" if entry.expand else "host"
        by_rescale = {}
        for in_float32, dtype in ((False, "int8"), (False, "int16"), (True, "int16")):
            found = [
                way.unit
                for way in row.ways
                if {first.get(code, dtype), "any"} & set(way.types)
                and in_float32 == any("requantized in float32 (as ONNX" in each for each in way.conditions)
            ]
            by_rescale[in_float32, dtype] = ", ".join(dict.fromkeys(found))
        wide = by_rescale[False, "int16"]
        moves = wide if wide == "dma" or row.op == "max_pool_2d" else ""
        dynamic = [each for each in entry.arithmetics if each.on_host and "power_of_two" not in each.rescales]
        on_float_units = bool(dynamic) and dynamic[0].expand is not None
        cell = (
            (by_rescale[False, "int8"] or unaided) if {"int8", "uint8"} & set(types) else "-",
            (wide or "host") if "int16" in types else "-",
            by_rescale[True, "int16"] or moves or ("host" if "int16" in types and row.names["ONNX"] else "-"),
            ("float units, else host" if on_float_units else "host") if dynamic else "-",
        )
        if set(cell) != {"-"}:
            cells[code] = cell
    return cells


def _schemes() -> list[str]:
    return [
        "## Quantization schemes",
        "",
        "Which units compute an operator of TensorFlow Lite in each scheme. int16x8 has int16 activations and int8",
        "weights. In ONNX int16 values with zero point 0 stand between QuantizeLinear and DequantizeLinear. Dynamic",
        "range has float32 activations and int8 or int4 weights. `-`: LiteRT, or ONNX, does not have it.",
        "`simpler operators`: it is written out.",
        "",
        *_table(("operator", *SCHEMES), [(f"`{code}`", *cell) for code, cell in scheme_cells().items()]),
    ]


_OPERATORS = """\
# Operators

<!-- Written by docs/generate.py from the rows of operators and front ends. Change those, then `make docs`. -->

Element types are those of the first operand. An operator runs on the NPU if the conditions below hold. Reports name the
failed condition of each operator that the host runs, and `npusim ops OP` prints all of them. The host computes every
listed type, and its time is counted. Float values need float lanes (`vector.float16_lanes`, `vector.float32_lanes`) and
float columns (`mac_array.float16_columns`, `mac_array.float32_columns`) in the hardware to run on the NPU, int16 values
`vector.int16_passes` and `mac_array.int16_passes` above 0.

"""


# docs/hardware.md


def hardware_page() -> str:
    """Return the reference of hardware files: every key, and the presets."""
    return "\n".join([_INTRODUCTION, *_sections(), "## Presets", "", _PRESETS, "", *_preset_table(), ""])


_INTRODUCTION = """\
# Hardware files

<!-- Written by docs/generate.py from isa/hardware/hardware.py and the presets. Change those, then `make docs`. -->

A hardware file is TOML. `extends` names a preset, or another file relative to this one. A key that the file leaves out
keeps the value from there; without `extends` it keeps the default below. `npusim hw check FILE` lists every fault of a
file at once. `npusim hw show NAME` prints a preset or a file with all its values. A key that the machine does not read
is a fault if it is given in a file, with `--set` or in Python. The message names the keys that the machine reads
instead, and *read by* in the tables says which machines read a key. Keys that a file inherits from a machine with
another MAC engine type are left out, so a file may change `mac_array.kind` alone. Rules between keys (banks divide the
scratchpad, a DRAM row holds a burst, accumulators suffice for the columns, ...) are checked too and reported with the
key that breaks them.

Latency and energy are shown with what is known of their error. Presets that are named after chips were compared with
these chips ([silicon.md](silicon.md)). The error holds for every file that has all keys of such a preset, whatever its
name is. A file that extends one and changes a key, `--set` and the points of a study describe another machine: "based
on ethos-u55-128, 2 keys changed: error not known". The error still holds for a value within the range with which rows
of the preset were simulated, such as `mac_array.weight_bits` from 5 to 7 of `gap9`. `edge-*` and `mobile-*` are
idealised arrays and no chips.
"""

_PRESETS = (
    "What the presets set, where they differ, and the typical error of each ([silicon.md](silicon.md)):"
)


def _sections() -> Iterator[str]:
    yield from _section("Top level", "", [each for each in parameters() if "." not in each.path])
    for path, table in _tables(Hardware):
        if table is FurtherMemory:
            continue  # a list of tables: below
        keys = [each for each in parameters() if each.path.rpartition(".")[0] == path]
        yield from _section(f"[{path}]", inspect.getdoc(table) or "", keys)
    yield from _section("[[memory]]", inspect.getdoc(FurtherMemory) or "", list(memory_parameters()))


def _tables(table: type[Section], prefix: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Yield the tables of a hardware file by path, each before those in it; optional ones, too."""
    for name, field in table.model_fields.items():
        if field.table is not None:
            yield prefix + name, field.table
            yield from _tables(field.table, f"{prefix}{name}.")


def _section(title: str, text: str, keys: list[Parameter]) -> Iterator[str]:
    yield from (f"## {title}", "")
    if text:
        yield from (text, "")
    head = ("key", "may be", "default", "meaning")
    rows = [(f"`{key.path.rpartition('.')[2]}`", key.allowed, _default(key), key.description) for key in keys]
    readers = {key.readers for key in keys}
    if len(readers) == 1 and keys[0].readers:
        yield from (f"Read by: {keys[0].readers}.", "")
    elif len(readers) > 1:
        head = (*head, "read by")
        rows = [(*row, key.readers or "all") for row, key in zip(rows, keys, strict=True)]
    yield from _table(head, rows)


def _default(key: Parameter) -> str:
    if key.default is None:
        return "required" if key.required else "unset"
    return f"`{_toml(key.default)}`" if key.default != "" else "empty"


def _preset_table() -> Iterator[str]:
    presets = [to_flat(hardware(name)) for name in list_presets()]
    paths = [
        key.path
        for key in parameters()
        if key.path not in ("name", "description") and len({str(each.get(key.path)) for each in presets}) > 1
    ]
    rows = [(f"`{path}`", *(_toml(preset.get(path, "")) for preset in presets)) for path in paths]
    errors = [in_columns(standing(hardware(name))) for name in list_presets()]
    rows += [(title, *(each[at] for each in errors)) for at, title in enumerate(ERRORS)]
    yield from _table(("key", *list_presets()), rows)


def _toml(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield from markdown(head, rows)
    yield ""


# CONTRIBUTING.md


def with_rooms(text: str) -> str:
    """Write the table of packages in a document anew, from their docstrings and tests/test_rooms.py."""
    return _with_part(text, "rooms", _rooms())


def _with_part(text: str, name: str, lines: Iterator[str]) -> str:
    """Replace the lines between two marks of a document."""
    mark = f"<!-- {name}: written by docs/generate.py -->\n"
    begin, end = text.index(mark) + len(mark), text.index(f"<!-- end of {name} -->")
    return text[:begin] + "\n".join(lines) + text[end:]


def _rooms() -> Iterator[str]:
    from drawings import purpose

    from tests.test_rooms import ROOMS

    yield from _table(
        ("package", "holds", "imports from"),
        [
            (
                f"`{room.removeprefix('npusim.')}`",
                purpose(room),
                ", ".join(lower.removeprefix("npusim.") for lower in below) or "no other package",
            )
            for room, below in ROOMS.items()
        ],
    )


# docs/losses.md


def with_losses(text: str) -> str:
    """Write the cycles of ResNet-50 in docs/losses.md anew, on edge-128 and on changed hardware."""
    plain = _resnet50()
    text = _with_part(text, "account", _account(plain))
    rows = [("none", plain)] + [(f"`{change}`", _resnet50(change)) for change in RESNET50_CHANGES]
    cells = [
        (name, _millions(run.cycles), f"{run.cycles / run.lower_bound.cycles:.2f}") for name, run in rows
    ]
    head = ("change to `edge-128`", "cycles", "of the lower bound")
    return _with_part(text, "changes", _table(head, cells))


RESNET50_CHANGES = (
    *(f"scratchpad.size_kib = {size}" for size in (3072, 4096, 8192)),
    *(f"dram.bandwidth_gb_per_s = {rate}" for rate in (0.55, 0.6)),
    *("vector.lanes = 16", "front_end.queue_depth = 32"),
)


def _resnet50(*settings: str) -> npusim.RunResult:
    machine = npusim.hardware("edge-128", settings)
    return npusim.run("resnet50", hw=machine, timing_only=True)


def _account(run: npusim.RunResult) -> Iterator[str]:
    bound, lost = run.lower_bound.cycles, run.lost_cycles
    shares = {"stall_weights": "weights of the last stage and of the classifier pass the DRAM port"}
    ratio = f"{run.cycles / bound:.2f}"
    took, least = _millions(run.cycles), _millions(bound)
    yield f"`resnet50` on `edge-128` takes {took} cycles, {ratio} of its lower bound of {least},"
    yield "which the MAC array sets. The loss account of the network names one cause:"
    yield ""
    yield f"    {'lower bound':16}{_millions(bound):>8}   mac"
    large = sorted((name for name in lost if lost[name] >= 0.2e6), key=lambda name: -lost[name])
    for name in large:
        yield f"    {name:16}{_millions(lost[name]):>8}   {shares.get(name, '')}".rstrip()
    rest = sum(lost.values()) - sum(lost[name] for name in large)
    yield f"    {'everything else':16}{_millions(rest):>8}"
    yield ""


def _millions(cycles: float) -> str:
    return f"{int(cycles) / 1e6:.2f} M"


# docs/statements.md


def statements_page() -> str:
    """Return the statements of the texts that npusim implements, with the rule that keeps each, and the test."""
    from tests.statements.table import TEXTS

    lines = [_STATEMENTS]
    for text in TEXTS:
        rows = list(text.statements())
        lines += [f"## {text.title}", "", f"`tests/statements/{text.name}.csv`, {len(rows)} statements.", ""]
        lines += _table(
            ("place", "statement", "rule", "test"),
            [
                (
                    _cell(row.place),
                    _cell(row.statement),
                    ", ".join(f"`{name.replace(':', '.')}`" for name in row.rules),
                    _cell(
                        "; ".join([*(f"`{test}`" for test in row.tests), *([row.reason] * bool(row.reason))])
                    ),
                )
                for row in rows
            ],
        )
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_STATEMENTS = """\
# Statements of the texts

<!-- Written by docs/generate.py from tests/statements. Change those, then `make docs`. -->

npusim implements five texts. This page lists the statements of each text in our words: the place in the text, the
statement, the rule that implements it, and the tests that would fail without it. Rules are those of
[hal.md](hal.md#rules) and [nnef.md](nnef.md#rules), names of operations and functions as in the text, or places in the
code, below `npusim`. Tests are below `tests`; a word in brackets selects the cases of a test that begin with it.
[hal.md](hal.md#departures) lists where npusim departs from the NN HAL, and why.

"""


# docs/hal.md


def with_rules(text: str) -> str:
    """Write the rules of the HAL in a document anew, from the docstrings of their checks."""
    from npusim.frontends.nn_hal.model_check import texts

    return _with_part(text, "rules", _table(("id", "rule"), [*texts()]))


def with_rules_of_nnef(text: str) -> str:
    """Write the rules of NNEF's language in a document anew, from their words in messages."""
    from npusim.frontends.nnef.nnef_rules import RULES

    return _with_part(text, "rules", _table(("id", "rule"), [*RULES.items()]))


def with_formats(text: str) -> str:
    """Write the formats of `npusim convert` in a document anew, and the operators that each has."""
    from npusim.frontends.targets import TARGETS
    from npusim.kernels.table import NAMES

    formats = []
    for row in TARGETS:
        suffixes = ", ".join(f"`{suffix}`" for suffix in row.suffixes)
        takes = f"`npusim[{row.extra}]`" if row.extra else "nothing"
        formats.append((f"`--to {row.name}`", row.title, suffixes, takes))
    has = [(row.title, ", ".join(f"`{name}`" for name in NAMES if name in row.operators)) for row in TARGETS]
    text = _with_part(text, "formats", _table(("option", "format", "files", "takes"), formats))
    return _with_part(text, "operators", _table(("format", "operators that it has"), has))


# docs/formats.md


def with_front_ends(text: str) -> str:
    """Write the front ends and their operations in a document anew, from the tables of the front ends."""
    import tflite

    from npusim.frontends.frontend import FRONT_ENDS
    from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS
    from npusim.frontends.nnef.language.standard import OPERATIONS as STANDARD
    from npusim.frontends.nnef.operations import nnef_table as nnef
    from npusim.frontends.onnx.operations import onnx_table as onnx
    from npusim.frontends.paddle import paddle_program as paddle
    from npusim.frontends.paddle.written_out import WRITTEN_OUT
    from npusim.frontends.tflite.operators import DECIDING, OPERATORS
    from npusim.frontends.tflite.shape_arithmetic import VALUES

    builtin = {name for name in vars(tflite.BuiltinOperator) if name[0].isupper()} - {"CUSTOM"}
    counts = {
        "TensorFlow Lite": len(OPERATORS) + len(DECIDING) + len(VALUES),
        "NN HAL": len(OPERATIONS),
        "NNEF": len(nnef.ROWS),
        "ONNX": len(onnx.ROWS),
        "Paddle": len(paddle.ROWS) + len(WRITTEN_OUT),
    }
    formats = [
        (
            front_end.name,
            ", ".join(f"`{suffix}`" for suffix in front_end.suffixes)
            + (", folders" if front_end.name in ("NNEF", "Paddle") else ""),
            front_end.layout.name,
            str(counts[front_end.name]),
        )
        for front_end in FRONT_ENDS
        if front_end.name in counts
    ]
    text = _with_part(text, "front ends", _table(("format", "files", "images are", "operations"), formats))
    without = builtin - set(OPERATORS) - set(DECIDING) - set(VALUES)
    in_nnef = {row.name for row in nnef.ROWS} | {"external", "variable", "constant"}
    missing = {row.name for row in STANDARD.values() if not row.body} - in_nnef
    quantizing = {name for name in STANDARD if name.endswith("_quantize")}
    rows = [
        ("TensorFlow Lite", "has not", _names(name for name in without if not name.startswith("STABLEHLO"))),
        ("NNEF", "has not", _names(missing - quantizing)),
        ("ONNX", "has, also on quantized values", _names(row.kind for row in onnx.ROWS if row.groups)),
        (
            "ONNX",
            "has, not on values of a QDQ group",
            _names(row.kind for row in onnx.ROWS if not row.groups),
        ),
        ("Paddle", "has, also on quantized values", _names(row.name for row in paddle.ROWS if row.groups)),
        ("Paddle", "has, written out", _names(WRITTEN_OUT)),
        ("Paddle", "has, not on quantized values", _names(row.name for row in paddle.ROWS if not row.groups)),
    ]
    return _with_part(text, "operations", _table(("format", "", "operations"), rows))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def with_functions(text: str) -> str:
    """Write the functions of NNAdapter's C interface and the properties of devices in a document anew."""
    from npusim.nnadapter.c.c_functions import ROWS
    from npusim.nnadapter.hal.device_machines import KEYS, PARTITION

    functions = [
        (f"`{row.name}({', '.join(slot.name for slot in row.slots)})`", row.means, row.rule) for row in ROWS
    ]
    keys = [(f"`{PARTITION}`", "how models are cut: order, cost or single")]
    keys += [(f"`NPUSIM_{row.name}`", row.means) for row in KEYS]
    text = _with_part(text, "functions", _table(("function", "what it does", "rule"), functions))
    return _with_part(text, "properties", _table(("key", "value"), keys))


def schema_file() -> str:
    """Return the JSON Schema of the JSON that npusim writes, as text."""
    return json.dumps(json_schema.schema(), indent=1) + "\n"


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "hardware.md": hardware_page,
    DOCS / "operators.md": operators_page,
    DOCS / "statements.md": statements_page,
    DOCS / "json.md": json_schema.page,
    DOCS / "npusim.schema.json": schema_file,
}
"""Documents that are written whole, with the function that returns their text."""

LOSSES_PAGE = DOCS / "losses.md"
"""The only document among them whose parts need long runs."""

PARTS: dict[Path, Callable[[str], str]] = {
    ROOT / "CONTRIBUTING.md": with_rooms,
    DOCS / "hal.md": with_rules,
    DOCS / "nnef.md": with_rules_of_nnef,
    DOCS / "convert.md": with_formats,
    DOCS / "formats.md": with_front_ends,
    DOCS / "nnadapter.md": with_functions,
    LOSSES_PAGE: with_losses,
}
"""Documents with parts between marks, with the function that returns a text with its parts written anew."""


# Documents with output


@dataclass(frozen=True)
class Block:
    """A code block: its language, the name behind it, its lines, and where these are in the document."""

    language: str
    name: str
    body: str
    start: int
    end: int


@dataclass(frozen=True)
class Shown:
    """An output that the document shows, and what it is when produced again."""

    source: str
    shown: str
    now: str
    start: int
    end: int

    @property
    def current(self) -> bool:
        """Whether the two are equal, apart from the seconds that npusim took."""
        return _without_seconds(self.shown) == _without_seconds(self.now)


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a document, in order."""
    return [
        Block(found[1], found[2] or "", found[3], found.start(3), found.end(3))
        for found in _BLOCK.finditer(text)
    ]


def outputs(text: str) -> list[Shown]:
    """Run the blocks of a document, and return every output that it shows beside the one produced."""
    found: list[Shown] = []
    namespace: dict[str, Any] = {"__name__": "__readme__"}
    printed: tuple[str, str] | None = None
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shutil.copytree(DOCS / "spaces", "docs/spaces")
        for block in blocks(text):
            if block.language == "text" and printed is not None:
                found.append(_shown(*printed, block.body, block.start))
            printed = None
            if "/" in block.name:
                continue
            if block.language in ("toml", "json", "csv") and block.name:
                Path(block.name).write_text(block.body, "utf-8")
            elif block.language == "console":
                found += _console(block)
            elif block.language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as stream:
                    exec(compile(block.body, "<a document's block>", "exec"), namespace)
                printed = (block.body.splitlines()[0], stream.getvalue())
    return found


def refreshed(text: str) -> str:
    """Replace every output in a document that is no longer true."""
    for each in reversed(outputs(text)):
        if not each.current:
            text = text[: each.start] + each.now + text[each.end :]
    return text


def _console(block: Block) -> Iterator[Shown]:
    starts = [found.start() for found in re.finditer(r"^\$ ", block.body, re.MULTILINE)]
    for begin, end in zip(starts, [*starts[1:], len(block.body)], strict=True):
        command, _, shown = block.body[begin:end].partition("\n")
        yield _shown(command, _run(command[2:]), shown, block.start + begin + len(command) + 1)


def _run(command: str) -> str:
    """Return the output of a command, stderr included, in 80 columns."""
    program, *arguments = shlex.split(command)
    if program != "npusim":
        raise ValueError(f"{command}: only npusim commands are run")
    environment = os.environ | {"COLUMNS": "80", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "npusim", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        encoding="utf-8",
        check=False,
    )
    if done.returncode not in (0, 2):
        raise ValueError(f"{command}: exit status {done.returncode}: {done.stdout}")
    return done.stdout


def _shown(source: str, printed: str, shown: str, start: int) -> Shown:
    lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
    before = shown.rstrip("\n").splitlines()
    if before and before[-1] == _OMITTED:
        lines = [*lines[: len(before) - 1], _OMITTED]
    now = "".join(f"{line}\n" for line in lines)
    return Shown(source, shown, now, start, start + len(shown))


def _without_seconds(text: str) -> str:
    return "\n".join(
        _SECONDS.sub("# s", line) if line.startswith("Took ") else line.rstrip()
        for line in text.rstrip("\n").splitlines()
    )


if __name__ == "__main__":
    import drawings

    for path, whole in PAGES.items():
        path.write_text(whole(), "utf-8")
    for path, with_part in PARTS.items():
        path.write_text(with_part(path.read_text("utf-8")), "utf-8")
    for document in WITH_OUTPUT:
        if document == NEEDS_LITERT and not litert.installed():
            continue
        document.write_text(refreshed(document.read_text("utf-8")), "utf-8")
    for file, drawing in drawings.drawings().items():
        file.write_text(drawing, "utf-8")
