"""The reader of result files, which `npusim run --json` writes.

A file may come from elsewhere, so its structure is checked before any value is used. A fault is a message of one line
that names the file and the key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.numbers.causes import CAUSES
from npusim.numbers.run import SCHEMA_VERSION
from npusim.numbers.variants import is_host_alone

LONGEST_VALUE = 40
OF_AN_NPU = (
    *("area_mm2.", "tops.", "mac_utilization", "instructions"),
    *("dram_bytes.", "memory_bytes.", "scratchpad_peak_bytes"),
)
"""Prefixes of keys that have no meaning for a CPU alone, whose own memory traffic is not modelled."""

_LARGEST_NUMBER = 1e100

# No real run reaches these limits. Differences and percentages of numbers within them are finite.
_MOST = 1 << 60
Number = Annotated[float, Field(ge=-_MOST, le=_MOST)]
Count = Annotated[int, Field(ge=0, le=_MOST)]
Cycles = dict[str, Annotated[int, Field(ge=-_MOST, le=_MOST)]]


class _Table(BaseModel):
    """A table of a result file. Unknown keys are ignored, because later versions may add some."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)


class _Cycles(_Table):
    total: Count
    dma: Count
    mac: Count
    vector: Count
    host: Count
    stall: Count


class _Energy(_Table):
    total: Number
    dynamic: Number
    static: Number
    dram: Number
    host: Number
    by_component: dict[str, Number]


class _Power(_Table):
    average: Number
    peak: Number
    # Version 0.1.0 wrote `peak` alone, over 1 % of the run, which cannot be compared with peaks over a fixed time.
    peak_10us: Number | None = None
    peak_1ms: Number | None = None


class _DramBytes(_Table):
    read: Count
    write: Count
    instructions: Count


class _MemoryBytes(_Table):
    read: Count
    write: Count


class _PerformanceInfo(_Table):
    execTime: Number
    powerUsage: Number


class _Hardware(_Table):
    name: str
    clock_mhz: Annotated[float, Field(gt=0)]
    lacks_operators: list[str] = Field(default_factory=list)


class LayerNumbers(_Table):
    """A layer in a result file; `npusim.numbers.layers.LayerResult` defines its numbers."""

    name: str
    op: str
    unit: str
    cycles: Count
    macs: Count
    utilization: Number
    bytes: Count
    energy_uj: Number
    lower_bound_cycles: Count
    bound_by: str
    lost_cycles: Cycles
    device: str = ""


class _Device(_Table):
    name: str
    launches: Count
    hardware: _Hardware


class _Claim(_Table):
    words: str


class _Agreement(_Table):
    latency: _Claim
    energy: _Claim


class _Result(_Table):
    """The keys of a result file of schema version 1 that are read by name."""

    npusim_version: str
    model: str
    hardware: _Hardware
    cycles: _Cycles
    latency_ms: Number
    inferences_per_s: Number
    energy_uj: _Energy
    power_mw: _Power
    macs: Count
    mac_utilization: Number
    lower_bound_cycles: Count
    bound_by: str
    lost_cycles: Cycles
    dram_bytes: _DramBytes
    # Version 0.1.0 wrote the traffic of the DRAM alone.
    memory_bytes: dict[str, _MemoryBytes] | None = None
    scratchpad_peak_bytes: Count
    instructions: Count
    performance_info: _PerformanceInfo
    layers: list[LayerNumbers]
    devices: list[_Device] = Field(default_factory=list)
    # Version 0.1.0 stated no error.
    agreement: _Agreement | None = None


@dataclass(frozen=True)
class ResultFile:
    """A checked result file: its path ("" for a result in memory), and its values as in the JSON."""

    source: str
    values: Mapping[str, Any]
    layers: tuple[LayerNumbers, ...]

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.values["model"])

    @property
    def hardware(self) -> str:
        """The name of the hardware, or of the devices that run a part of the model."""
        at_work = [str(device["name"]) for device in self.devices if device["launches"]]
        return ", ".join(at_work) or str(self.values["hardware"]["name"])

    @property
    def devices(self) -> list[Mapping[str, Any]]:
        """The devices of the context as in the file; empty for a run outside of a context."""
        return list(self.values.get("devices", ()))

    @property
    def clock_mhz(self) -> float:
        """The clock of the NPU in MHz."""
        return float(self.values["hardware"]["clock_mhz"])

    @property
    def memories(self) -> Mapping[str, Any] | None:
        """Return the traffic by name of the machine's memories; None for a file of a version that did not write it."""
        memories: Mapping[str, Any] | None = self.values.get("memory_bytes")
        return memories

    def has(self, key: str) -> bool:
        """Return whether a number has a meaning for this machine.

        A machine without DRAM has no DRAM traffic; a CPU alone has no MAC array.
        """
        if is_host_alone(self.values):
            return not key.startswith(OF_AN_NPU)
        return not key.startswith("dram_bytes.") or self.memories is None or "dram" in self.memories

    @property
    def npusim_version(self) -> str:
        """The version of npusim that wrote the file."""
        return str(self.values["npusim_version"])

    @cached_property
    def flat(self) -> Mapping[str, Any]:
        """Every value by its dotted key. Layers are listed by position, and also by name if the name is unique.

        Causes without lost cycles, which the JSON leaves out, are 0.
        """
        count = Counter(layer.name for layer in self.layers)
        by_name = {
            f"layers.{layer['name']}.{key}": value
            for layer in self.values["layers"]
            if count[layer["name"]] == 1
            for key, value in flat(_with_all_causes(layer))
        }
        return by_name | dict(flat(_with_all_causes(self.values)))


def read(path: str | Path) -> ResultFile:
    """Read and check a result file. Raises NpusimError, with the fault, for a file that is not valid."""
    text = user_file.text(path, user_file.RESULT)
    return parse(text, str(path))


def parse(text: str, source: str) -> ResultFile:
    """Parse and check the text of a result file. source: the path, with which the message of a fault begins."""
    try:
        values = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        where = f" at line {fault.lineno}" if isinstance(fault, json.JSONDecodeError) else ""
        raise NpusimError(
            f"{source}: not a result file: not valid JSON{where}; npusim run MODEL --json F writes one"
        ) from None
    return check(values, source)


def check(values: object, source: str) -> ResultFile:
    """Check the plain values of `RunResult.to_dict`. Raises NpusimError that names the faulty key."""
    if not isinstance(values, dict) or "schema_version" not in values:
        raise NpusimError(
            f"{source}: not a result file: it has no schema_version; npusim run MODEL --json F writes one"
        )
    version = values["schema_version"]
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise NpusimError(
            f"{source}: schema_version {_short(version)}, this npusim reads {SCHEMA_VERSION}; "
            "run the model again with this version"
        )
    try:
        checked = _Result.model_validate(values)
    except ValidationError as error:
        raise NpusimError(f"{source}: not a result file: {_fault(error)}") from None
    return ResultFile(source, values, tuple(checked.layers))


def _fault(error: ValidationError) -> str:
    """Return the first fault as text, with the number of further ones."""
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    count = error.error_count()
    more = f" (and {count - 1} more)" if count > 1 else ""
    if first["type"] == "missing":
        return f"{path} is missing{more}"
    return f"{path}: {_short(first['input'])}: {first['msg'].lower()}{more}"


def _with_all_causes(table: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**table, "lost_cycles": dict.fromkeys(CAUSES, 0) | table["lost_cycles"]}


def flat(value: object) -> Iterator[tuple[str, Any]]:
    """Return the leaves of nested tables and lists by dotted path, in their order."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping):
            below: list[tuple[str, object]] = list(value.items())
        elif isinstance(value, list):
            below = [(str(position), item) for position, item in enumerate(value)]
        else:
            yield path, value
            continue
        waiting += [(f"{path}.{key}" if path else key, item) for key, item in reversed(below)]


def _no_constant(word: str) -> Any:
    raise ValueError(word)


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def numbers(runs: Sequence[ResultFile], key: str) -> list[float]:
    """Return the number of a dotted key in each run. Raises NpusimError for an unknown key or one without a number."""
    return [_number(run, key) for run in runs]


def _number(run: ResultFile, key: str) -> float:
    where = run.source or f"{run.model} on {run.hardware}"
    if key not in run.flat:
        raise NpusimError(f"{where}: there is no {key}{_hint(run, key)}")
    value = run.flat[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST_NUMBER:
        shown = "unset" if value is None else repr(value) if isinstance(value, str) else str(value).lower()
        raise NpusimError(f"{where}: {key} is not a number: {shown}")
    return value


def _hint(run: ResultFile, key: str) -> str:
    """Return a suggestion for an unknown key: a key below a table, or the most similar key."""
    below = [known for known in run.flat if known.startswith(f"{key}.")]
    if below:
        return f" itself; it may be {', '.join(below[:3])}{', ...' if len(below) > 3 else ''}"
    named = (known for known in run.flat if not re.match(r"layers\.\d+\.", known))
    near = nearest(key, named)
    return f"; did you mean {near}?" if near else ""
