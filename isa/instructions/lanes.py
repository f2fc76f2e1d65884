"""What the instructions of the vector unit share: formats of operands, and cycles, energy and demand from their work.

Lanes compute results side by side. A row states its work once, in `work`: the actions that a result takes, how many
results there are, and how often the lanes are filled. A result occupies its lane for the cycles of its actions
(`npusim.isa.instructions.actions`), so cycles, counted actions and demand all follow from `work`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.cause import Cause
from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.actions import LANE_CYCLES
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.memory import Memory
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.instructions.word import CODES, FIRST, bits

Values = NDArray[Any]

VECTOR_CAUSES = (
    Cause(
        "vector_overhead",
        "vector overhead",
        "#5bb89f",
        "inside the vector unit: start-up, lanes without an element, loading tables, bytes of positions",
        ("vector.startup_cycles",),
    ),
)


class Format(NamedTuple):
    """A format of operands and results.

    size_bytes: of an element in the scratchpad.
    lanes:      the field of the vector unit that says how many lanes compute it.
    arithmetic: how functions are computed: in fixed point, in float32 between conversions, or in floating point.
    """

    name: str
    size_bytes: int
    lanes: str
    arithmetic: str


FORMATS = (
    Format("8_bit", 1, "lanes", "fixed_point"),
    Format("int16", 2, "lanes", "fixed_point"),
    Format("as_float32", 1, "lanes", "as_float32"),
    Format("float16", 2, "float16_lanes", "float"),
    Format("float32", 4, "float32_lanes", "float"),
)
"""The values of the field `format`. "as_float32" is 8-bit data that is dequantized, computed in float32, and
quantized again, as ONNX does."""
FORMAT_NAMES = tuple(each.name for each in FORMATS)
FLOAT_TYPES = tuple(each.name for each in FORMATS if each.arithmetic == "float")
_OF_DTYPE = {"int8": 0, "uint8": 0, "int16": 1, "float16": 3, "float32": 4}


def format_of(dtype: str) -> int:
    """The value of the field `format` for elements of a numpy type, computed in that type."""
    return _OF_DTYPE[dtype]


def format_field() -> Any:
    """The field that says which format operands and results have; it is the first of a row."""
    doc = "format of operands and results: 8_bit is int8 or uint8, as_float32 the same computed in float32"
    return bits(3, doc, choices=FORMAT_NAMES, place=FIRST)


def bound(which: str) -> Any:
    """The field of the "smallest" or the "largest" integer result."""
    return bits(16, f"{which} integer result", signed=True)


EFFORT_ACTIONS = {"simple": "add", "multiply": "multiply", "divide": "divide", "function": "function"}
"""The action of a float function, without its type, by the effort that `npusim.isa.arithmetic.real` gives it."""


class Way(NamedTuple):
    """How a function is computed in one arithmetic, and what lanes do for it.

    compute: its meaning; what it takes and gives is up to the row.
    each:    the action of an element of the input.
    last:    the actions of a result, behind those of its elements.

    Actions of floating-point lanes are written without their type: "float_add" stands for `vector_float16_add` and
    `vector_float32_add`.
    """

    compute: Callable[..., Any]
    each: str
    last: tuple[str, ...] = ()

    def steps(self, elements: int) -> dict[str, int]:
        """The actions of a result of so many elements, and how often it takes each."""
        counted = {self.each: elements}
        for action in self.last:
            counted[action] = counted.get(action, 0) + 1
        return counted


class Work(NamedTuple):
    """Equal results that lanes compute side by side.

    steps:   the actions of a result, and how often it takes each.
    results: how many results there are.
    groups:  how often the lanes are filled.
    cycles:  for which a result occupies its lane.
    leaving: cycles that a group takes beyond these until its results are written.
    """

    steps: Mapping[str, int]
    results: int
    groups: int
    cycles: int
    leaving: int = 0


def code_type(signed: int) -> Any:
    """The numpy type of 8-bit values, by `SIGNS`."""
    return np.int8 if signed else np.uint8


def clamp_fault(signed: int, low: int, high: int) -> list[str]:
    """What is wrong with a clamp of 8-bit results; empty if nothing."""
    code_low, code_high = CODES[signed]
    if code_low <= low <= high <= code_high:
        return []
    return [f"clamp {low}..{high} does not lie in {code_low}..{code_high}"]


def passes(elements: int, v: Vector) -> int:
    """Cycles for one pass of a one-cycle function over `elements`."""
    return -(-elements // v.lanes)


def float_lanes(hardware: Hardware, dtype: str) -> int:
    """Lanes of the vector unit that compute float16 or float32; 0 where there are none."""
    lanes: int = getattr(hardware.vector, f"{dtype}_lanes")
    return lanes


def float32_of(word: int) -> np.float32:
    """The float32 with these bits."""
    return np.float32(np.array([word], np.uint32).view(np.float32)[0])


def bits_of(number: float) -> int:
    """The bits of a number as float32, for a field of 32 bits."""
    return int(np.array([number], np.float32).view(np.uint32)[0])


@np.errstate(all="ignore")
def stored(values: Values, dtype: Any) -> Values:
    """Results in the type of the memory; numbers beyond a float type become infinite."""
    return values.astype(dtype)


def int16_misfits(wide: int, context: Context) -> list[str]:
    """What int16 values need that the machine does not have; empty if nothing."""
    if not wide or context.hardware.vector.int16_passes:
        return []
    return ["computes on int16, the machine has vector.int16_passes = 0"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorInstruction(Instruction):
    """Base of the vector unit's rows: `cost` and `demand` follow from `work`, `traffic` and `table_bytes`."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    @property
    def number_format(self) -> Format:
        """The format of its operands; 8-bit unless a row says otherwise."""
        return FORMATS[0]

    @property
    def table_bytes(self) -> int:
        """Bytes of a table that the lanes load before they begin."""
        return 0

    def work(self, context: Context) -> tuple[Work, ...]:
        """Return what the lanes do, in as many parts as there are kinds of results."""
        raise NotImplementedError

    def traffic(self) -> tuple[int, int]:
        """Return the bytes that lanes read from the scratchpad, without tables, and those that they write."""
        raise NotImplementedError

    def part(
        self, context: Context, steps: Mapping[str, int], results: int, groups: int | None = None
    ) -> Work:
        """Results that take these actions; unless `groups` says otherwise, lanes are filled with any of them."""
        v, of = context.hardware.vector, self.number_format
        if of.arithmetic == "float":
            steps = {name.replace("float", f"vector_{of.name}", 1): times for name, times in steps.items()}
        cycles = sum([getattr(v, LANE_CYCLES[name]) * times for name, times in steps.items()])
        if groups is None:
            groups = self.groups(context, results)
        return Work(steps, results, groups, cycles * (v.int16_passes if of.name == "int16" else 1))

    def lanes(self, context: Context) -> int:
        """Lanes of the machine that compute the instruction's format."""
        lanes: int = getattr(context.hardware.vector, self.number_format.lanes)
        return lanes or 1

    def groups(self, context: Context, results: int) -> int:
        """How often lanes are filled with results that lie side by side."""
        return -(-results // self.lanes(context))

    def cost(self, context: Context) -> Cost:
        """Start-up, loading tables at `lanes` bytes per cycle, then the cycles of a result for every group of lanes."""
        v = context.hardware.vector
        cycles = v.startup_cycles + passes(self.table_bytes, v)
        actions: dict[str, int] = {}
        for part in self.work(context):
            cycles += part.groups * (part.cycles + part.leaving)
            for name, times in part.steps.items():
                actions[name] = actions.get(name, 0) + times * part.results
        read, written = self.traffic()
        actions["scratchpad_read_byte"] = read + self.table_bytes
        actions["scratchpad_write_byte"] = written
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The cycles of all results in one lane each, counted in cycles of the integer lanes."""
        cycles = sum([part.results * part.cycles for part in self.work(context)])
        return cycles * context.hardware.vector.lanes // self.lanes(context)

    def misfits(self, context: Context) -> list[str]:
        """The machine must compute the format: passes for int16, float32 for 8-bit data, lanes for floats."""
        of, hardware = self.number_format, context.hardware
        if of.name == "int16":
            return int16_misfits(1, context)
        if of.name == "as_float32" and not hardware.float32_rescale:
            return ["computes on codes in float32, the machine has float32_rescale = false"]
        if of.arithmetic == "float" and not float_lanes(hardware, of.name):
            return [f"computes {of.name}, the machine has vector.{of.name}_lanes = 0"]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted(VectorInstruction):
    """Base of the vector unit's rows that compute in several formats."""

    names: ClassVar[tuple[str, ...]] = ()
    """Its functions, in the order of the field `function`."""
    ways: ClassVar[Mapping[tuple[str, str], Any]] = {}
    """How each function is computed in each arithmetic that it is computed in, by both names."""

    format: int = format_field()
    if TYPE_CHECKING:  # fields of every subclass that needs them, at their places in its word
        function: int = 0
        signed: int = 0

    @property
    def number_format(self) -> Format:
        """The format of operands and results."""
        return FORMATS[self.format]

    @property
    def way(self) -> Any:
        """How the function is computed in the format."""
        return self.ways[self.names[self.function], self.number_format.arithmetic]

    def function_faults(self) -> list[str]:
        """What is wrong with the choice of function and format; empty if nothing."""
        of = self.number_format
        known = [name for name, arithmetic in self.ways if arithmetic == of.arithmetic]
        if not known:
            formats = [each.name for each in FORMATS if any(each.arithmetic == a for _, a in self.ways)]
            return [f"format is {of.name}; it may be {', '.join(formats)}"]
        name = self.names[self.function]
        return [] if name in known else [f"function is {name} of {of.name}; it may be {', '.join(known)}"]

    def range_faults(self, low: int, high: int) -> list[str]:
        """What is wrong with the range of integer results; empty if nothing, and for floats."""
        of = self.number_format
        if of.size_bytes == 1:
            return clamp_fault(self.signed, low, high)
        if of.name == "int16" and low > high:
            return [f"low {low} is above high {high}"]
        return []

    @property
    def dtype(self) -> Any:
        """The numpy type of results."""
        of = self.number_format
        return code_type(self.signed) if of.size_bytes == 1 else np.dtype(of.name).newbyteorder("<")

    def region(self, address: int, elements: int) -> Region:
        """The region of so many elements side by side."""
        return dense(Space.SCRATCHPAD, address, elements * self.number_format.size_bytes)

    def elements_at(
        self,
        memory: Memory,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: Any = None,
    ) -> Values:
        """Elements in the scratchpad; `strides` in bytes, dense if None; `dtype` of results if None."""
        dtype = np.dtype(dtype or self.dtype)
        if strides is None:
            strides = [dtype.itemsize * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        return memory.view(Space.SCRATCHPAD, address, shape, strides, dtype)

    def floats(
        self, memory: Memory, address: int, shape: Sequence[int], strides: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Floating-point elements in the scratchpad as float32."""
        with np.errstate(invalid="ignore"):  # what is no number signals when it is copied
            return self.elements_at(memory, address, shape, strides).astype(np.float32)
