"""The options of `npusim run`: the purpose of each, and the kinds of run with which it cannot be combined.

Other commands take some of the same options from here, so that an option means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.reports import REPORTS
from npusim.session.options import BUCKET, COST, Options, parse_sizes

if TYPE_CHECKING:
    from npusim.isa.base.tensor import Array, Placement

DEVICES, CACHE, TABLE, DECIDES, PROMPT = "--device", "--cache", "table", "decides", "--prompt"
INFERENCES, SYSTEM = "--inferences", "--system"
"""Kinds of run that exclude some options: on devices, with a cache of compiled models, of several models or machines,
with IF or WHILE, of a prompt and the tokens after it, of several inferences, and on a system of several cores (which
counts as one of several inferences, too)."""

Names = list[str] | None
File = Path | None


@dataclass(frozen=True, slots=True)
class Option:
    """An option of `npusim run`.

    type, default: type and default of its value.
    metavar:  placeholder of the value in the help.
    purpose:  line of the help.
    excludes: kinds of run with which it cannot be combined.
    instead:  replacement for a run on devices, or the reason why none exists.
    least:    smallest value of a number.
    shows_default: whether the help shows the default.
    """

    name: str
    type: Any
    default: Any
    metavar: str | None
    purpose: str
    excludes: tuple[str, ...] = ()
    instead: str = ""
    least: int | None = None
    shows_default: bool = True

    @property
    def flag(self) -> str:
        """Return the option as a user types it."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"


OPTIONS = (
    Option(
        "hw", Names, None, "NAME|FILE",
        "A preset (npusim hw list) or a TOML file; several give a table. [default: edge-128]",
        (DEVICES,), "a preset or hardware file is a device itself, so give --device once more",
    ),
    Option(
        "set_", Names, None, "KEY=VALUE",
        "Change a parameter of the hardware, such as mac_array.rows=32; may be repeated.",
        (DEVICES, CACHE), "give a hardware file with the change as a device",
    ),
    Option(
        "input", File, None, "F.npz", "Inputs, by tensor name or as in0, in1, ... [default: random]",
        (TABLE, PROMPT, INFERENCES),
    ),
    Option("output", File, None, "F.npz", "Write the outputs, as out0, out1, ...", (TABLE, PROMPT, INFERENCES)),
    *(
        Option(
            report.name, File, None, "F", f"Write {report.purpose}.",
            (() if report.has_table else (TABLE,)) + (() if report.name == "json" else (DECIDES, PROMPT, INFERENCES)),
        )
        for report in REPORTS
    ),
    Option(
        "report", File, None, "DIR", "Write a page, report.html, its data, and its figures.",
        (DECIDES, PROMPT, INFERENCES),
    ),
    Option(
        "dot", File, None, "F", "Write the model as a drawing in the DOT language of graphviz.",
        (TABLE, PROMPT, INFERENCES),
    ),
    Option("timing_only", bool, False, None, "Execute no data: the same cycles, no outputs."),
    Option(
        "every_layer", bool, False, None,
        "Simulate all of equal layers, also those that are proven to take the same cycles.",
        (DEVICES, CACHE, TABLE, DECIDES, INFERENCES), "its layers are all simulated",
    ),
    Option("seed", int, 0, "N", "Seed of random inputs.", least=0),
    Option(
        "what_if", bool, False, None, "Also try each hardware parameter doubled, by simulation.",
        (DEVICES, CACHE, TABLE, DECIDES, PROMPT, INFERENCES), "it changes one machine",
    ),
    Option("no_lever", bool, False, None, "Simulate no changes of the hardware for the answer."),
    Option(
        "effort", str, "fast", "fast|high|N",
        "How hard to look for a faster schedule; N: how many to try. [default: fast]", shows_default=False,
    ),
    Option(
        "unknown", str | None, None, "host",
        "Time operators that npusim does not have as host layers, by their bytes; without outputs.",
        (DEVICES, CACHE, PROMPT), "each operator must be one that a device has",
    ),
    Option(
        "host", Names, None, "OP,OP",
        "Operators that the host is to run although the NPU could, such as softmax,pad; may be repeated.",
        (TABLE,), shows_default=False,
    ),
    Option(
        "partition", Names, None, "FILE|cost|order|single",
        "A file that names operators for the host, or cost: to the host, or to the --device, with whatever makes "
        "the run faster there. Of devices also order: the first that can; single: one for all. May be repeated.",
        (TABLE,), shows_default=False,
    ),
    Option(
        "shape", Names, None, "NAME=N,N",
        "A shape that the model leaves open, such as image=1,3,224,224, or a size by its name, batch=1; may be "
        "repeated.", shows_default=False,
    ),
    Option(
        "decide", Names, None, "NAME=N",
        "Without data: the turns of a WHILE, 1 or 0 for an IF; once for each. [for a model that decides]",
        (DEVICES, CACHE, PROMPT, INFERENCES), "a model that decides is several programs already, of one machine",
        shows_default=False,
    ),
    Option(
        "device", Names, None, "NAME|FILE",
        "Instead of --hw: a device of NNAdapter (npusim, npusim_host, a preset, ...) or a TOML file; several "
        "share one system.", (PROMPT, INFERENCES), shows_default=False,
    ),
    Option(
        "print_partition", bool, False, None,
        "Also print the operators, as a partition file has them, and the pieces.", (CACHE, TABLE, PROMPT, INFERENCES),
    ),
    Option(
        "prompt", int | None, None, "N",
        "Of a language model (config.json, GGUF): read a prompt of N tokens, then generate.",
        (DEVICES, TABLE, INFERENCES), "it times one machine", least=1, shows_default=False,
    ),
    Option("new", int, 1, "N", "With --prompt: generate N tokens.", least=1),
    Option(
        "bucket", int | None, None, "N",
        f"With --prompt: programs read the keys and values of a multiple of N tokens. [default: {BUCKET}]", least=1,
        shows_default=False,
    ),
    Option(
        "weights", str | None, None, "FORMAT",
        "Of a transformer without weights: how they are stored, such as int8, int4-32, int4-32-zero, float16 or fp8. "
        "Of any model: size, to read no weights, which is enough to time it. "
        "[default: as its config.json or GGUF file says, else int8]", (DEVICES, TABLE),
        "a format may follow the name of a model, as in llama3_8b:int4-32", shows_default=False,
    ),
    Option(
        "cache", File, None, "DIR",
        "Keep the compiled model in this folder, and take it from there the next time.", (TABLE, PROMPT, INFERENCES),
        shows_default=False,
    ),
    Option(
        "inferences", int | None, None, "N",
        "Time N inferences one after the other, on each core of a --system: throughput beside latency.",
        (PROMPT,), least=1, shows_default=False,
    ),
    Option(
        "system", File, None, "FILE", "Instead of --hw: a system file, cores that share memories (docs/systems.md).",
        (PROMPT,), shows_default=False,
    ),
)  # fmt: skip
"""The options of `npusim run`, in the order of the help."""

INPUT, OUTPUT, JSON, DOT, DECIDE = "--input", "--output", "--json", "--dot", "--decide"

BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one `npusim run` with their values, and the files of reports by option."""

    hw: Names
    set_: Names
    input: File
    output: File
    report: File
    dot: File
    timing_only: bool
    every_layer: bool
    seed: int
    what_if: bool
    no_lever: bool
    effort: str
    unknown: str | None
    host: Names
    partition: Names
    shape: Names
    decide: Names
    device: Names
    print_partition: bool
    prompt: int | None
    new: int
    bucket: int | None
    weights: str | None
    cache: File
    inferences: int | None
    system: File
    reports: Mapping[str, Path]

    @classmethod
    def of(cls, **values: Any) -> Request:
        """Return a request from the value of every option, by name."""
        files = {report.option: values.pop(report.name) for report in REPORTS}
        return cls(**values, reports={option: path for option, path in files.items() if path})

    @property
    def settings(self) -> Sequence[str]:
        """Return the changes to the hardware."""
        return self.set_ or ()

    @property
    def options(self) -> Options:
        """Return the compiler options. Raises NpusimError for a size that cannot be parsed."""
        return Options(self.effort, self.unknown, names(self.host), self.partition, sizes_of(self.shape))

    @property
    def targets(self) -> dict[str, Path]:
        """Return the output and report files of a result, by option."""
        return ({OUTPUT: self.output} if self.output else {}) | dict(self.reports)

    @property
    def written(self) -> dict[str, Path]:
        """Return all files that the run writes, by option: those of the result, and the drawing of the model."""
        return self.targets | ({DOT: self.dot} if self.dot else {})

    def values(self, inputs: Sequence[Placement]) -> list[Array] | None:
        """Return the values of --input, or None without it. Raises NpusimError for values that do not fit."""
        if self.input is None:
            return None
        from npusim.session.inputs import read_npz

        return read_npz(self.input, inputs)

    def require(self, kind: str, message: str) -> None:
        """Raise NpusimError for the first given option that cannot be combined with a kind of run.

        message: text with the placeholders `option` and `instead`.
        """
        for option in OPTIONS:
            given = self.reports.get(option.flag) or getattr(self, option.name, None)
            if kind in option.excludes and given:
                raise NpusimError(message.format(option=option.flag, instead=option.instead))

    def require_data(self, without_data: str) -> None:
        """Raise NpusimError for inputs or outputs of a run that executes no data, for the reason given."""
        option = INPUT if self.input else OUTPUT if self.output else ""
        if without_data and option:
            raise NpusimError(f"{option}: {without_data} executes no data; give one or the other")


PARTITION_MODES = (COST, "order", "single")
"""Values of --partition that are not the name of a file."""


def partition_inputs(partition: Sequence[str] | None) -> dict[str, Path]:
    """Return the files from which a partition is read, for `files.check_outputs`."""
    return {f"--partition {part}": Path(part) for part in partition or () if part not in PARTITION_MODES}


def names(given: Sequence[str] | None) -> list[str]:
    """Return the names given to an option, which may be separated by commas or given by repeating the option."""
    return [name for text in given or () for name in text.split(",")]


def sizes_of(shape: Sequence[str] | None) -> dict[str, int | tuple[int, ...]]:
    """Return the sizes that --shape gives. Raises NpusimError."""
    return parse_sizes(shape) if shape else {}


def hardware_inputs(hw: str | None, called: str = "--hw", folder: Path | None = None) -> dict[str, Path]:
    """Return the files that a hardware is read from, for `files.check_outputs`; paths are relative to `folder`."""
    if hw is None:
        return {}
    from npusim.isa.hardware.file import sources

    return {
        called if number == 0 else f"what {called} extends ({path})": path
        for number, path in enumerate(sources(hw, folder))
    }
