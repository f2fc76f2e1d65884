"""Small machines, programs and memories, and random legal instructions of any row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.packing import pack
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import HostCall, Placement, Quantization, TensorType
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.dma import SPACES
from npusim.isa.instructions.gather import INDEX_TYPES
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.memory import HostFunction, Memory, commit
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import encode_all
from npusim.isa.instructions.word import FieldSpec
from npusim.isa.program.program import Buffer, Layer, MemoryImage, Program
from npusim.isa.program.start import memory_of
from npusim.isa.program.validate import find_violation
from npusim.isa.text.manual import full_hardware

DRAM_BYTES = 8192


@cache
def tiny_hardware() -> Hardware:
    """A machine with every option, a 4 x 4 array, 8 KiB of scratchpad, and a further memory of 8 KiB."""
    return change(
        full_hardware(),
        {
            "name": "tiny",
            "dram.size_mib": 1,
            "dma.channels": 4,
            "scratchpad.size_kib": 8,
            "scratchpad.banks": 2,
            "mac_array.rows": 4,
            "mac_array.columns": 4,
            "mac_array.accumulator_kib": 1,
            "memory": [{"name": "near", "kind": "sram", "size_kib": 8, "bandwidth_gb_per_s": 2.0}],
        },
    )


def tensor(dtype: str, *shape: int) -> TensorType:
    """A tensor type; 8-bit ones are quantized."""
    scale = Quantization((0.5,), (-3,)) if dtype == "int8" else None
    return TensorType(dtype, shape, scale)


CALLS = (
    HostCall(
        "reverse",
        "reverse",
        {"axis": 0},
        (Placement("a", tensor("int8", 10), 100),),
        (Placement("b", tensor("int8", 10), 300),),
        Workload("elementwise", elements=10),
    ),
    HostCall(
        "concatenate",
        "concatenate",
        {"axis": 0, "names": ["x", None], "scale": 0.1},
        (Placement("a", tensor("uint8", 3), 0), None, Placement("c", tensor("uint8", 4), 7)),
        (Placement("d", tensor("uint8", 7), 5),),
        Workload("move", input_bytes=7, output_bytes=7),
        "the NPU has no concatenate",
    ),
)

HOST_FUNCTIONS: Mapping[str, HostFunction] = {
    "reverse": lambda parameters, inputs, outputs, values: [values[0][::-1]],  # type: ignore[index,call-overload]
    "concatenate": lambda parameters, inputs, outputs, values: [
        np.concatenate([each for each in values if each is not None])
    ],
}


def program_of(instructions: Sequence[Instruction], **fields: Any) -> Program:
    """A program of instructions on the tiny machine; `fields` replace those of `Program`."""
    defaults: dict[str, Any] = {
        "name": "sample",
        "hardware": tiny_hardware(),
        "code": encode_all(instructions),
        "constants": bytes(range(200)),
        "dram_size_bytes": DRAM_BYTES,
        "code_address": 4096,
        "inputs": (Placement("in", tensor("int8", 2, 8), 512),),
        "outputs": (Placement("out", tensor("int8", 16), 544),),
        "layers": (
            Layer("first", "conv_2d", "mac", Workload("gemm", macs=64), ("t",)),
            Layer("zwei \u2028 ;\n", "add", "vector", Workload("elementwise", elements=3)),
        ),
        "layer_of": np.arange(len(instructions), dtype=np.uint32) % 2,
        "host_calls": CALLS,
        "buffers": (Buffer("weights; =", 0, 64, 0, len(instructions) - 1),) if instructions else (),
        "states": (Placement("state", tensor("int8", 4), 1028),),
    }
    values: dict[str, Any] = {"images": ()} | defaults | fields
    if values["constants"] and "images" not in fields:
        values["images"] = (MemoryImage(1024, len(values["constants"])),)
    return Program(**values)


def filled_memory(program: Program, seed: int = 0) -> Memory:
    """A memory full of random bytes."""
    rng = np.random.default_rng(seed)
    memory = memory_of(program, HOST_FUNCTIONS)
    for content in memory.spaces.values():
        content[:] = rng.integers(0, 256, len(content), np.uint8)
    return memory


def run(instruction: Instruction, contents: Mapping[int, bytes], hardware: Hardware | None = None) -> Memory:
    """The memory after one instruction on a scratchpad of zeros with `contents` at some addresses."""
    program = program_of([instruction], **({"hardware": hardware} if hardware else {}))
    found = find_violation(program, [instruction])
    assert found is None, found
    memory = memory_of(program, HOST_FUNCTIONS)
    for address, data in contents.items():
        memory.bytes_at(Space.SCRATCHPAD, address, len(data))[:] = np.frombuffer(data, np.uint8)
    commit(instruction.execute(memory))
    return memory


def codes(*values: int, dtype: str = "int8") -> bytes:
    """8-bit codes as bytes."""
    return np.array(values, dtype).tobytes()


def read(memory: Memory, address: int, *shape: int, dtype: str = "int8") -> Any:
    """Codes in the scratchpad as nested lists."""
    raw = memory.bytes_at(Space.SCRATCHPAD, address, int(np.prod(shape)))
    return raw.view(dtype).reshape(shape).tolist()


def legal_instructions(row: type[Instruction], count: int, seed: int = 0) -> list[Instruction]:
    """Random instructions of a row that keep all rules on the tiny machine, small enough to touch few bytes."""
    # Most drawn fields break a rule: what one test has found serves the next, which asks for as many or more.
    found, more = _drawn(row, seed)
    found += islice(more, max(count - len(found), 0))
    if len(found) < count:
        raise AssertionError(f"{row.mnemonic}: only {len(found)} legal instructions found by drawing fields")
    return found[:count]


@cache
def _drawn(row: type[Instruction], seed: int) -> tuple[list[Instruction], Iterator[Instruction]]:
    """The legal instructions of a row that were drawn so far, and those that can be drawn yet."""
    return [], _draw(row, seed)


def _draw(row: type[Instruction], seed: int) -> Iterator[Instruction]:
    program = program_of([row()], layers=program_of([]).layers)
    # Some rows keep one draw in thousands. Python's generator takes a tenth of the time of numpy's for single numbers.
    drawn = Random(f"{row.mnemonic} {seed}").random
    values = [(spec.name, _small_values(spec, drawn)) for spec in row.specs]
    for _ in range(300_000):
        instruction = row(**{name: value() for name, value in values})
        if not instruction.faults() and find_violation(program, [instruction]) is None:
            yield instruction


ON_THE_WAY = ("fused", "looked_up", "view")
"""What only machines have that do something on the way; the tiny one does not."""


def _small_values(spec: FieldSpec, drawn: Callable[[], float]) -> Callable[[], int]:
    """Return what draws a field of numbers from 0 to 1.

    Values are near the bottom of its range, of all magnitudes; multipliers (31 bits) of the usual size.
    """
    if spec.name in ON_THE_WAY:
        return lambda: 0
    if spec.choices:
        count = len(tiny_hardware().spaces if spec.choices == SPACES else spec.choices)
        return lambda: int(drawn() * count)
    if spec.signed:
        low, most = max(spec.low, -128), min(spec.high, 127) + 1
        return lambda: low + int(drawn() * (most - low)) if drawn() < 0.3 else int(drawn() * most)
    if spec.width == 31 or spec.name.endswith("_multiplier"):
        return lambda: (1 << 29) + int(drawn() * ((1 << 31) - (1 << 29)))
    limit = 11 if spec.width >= 24 else min(spec.width, 3)
    return lambda: min(int(2 ** (drawn() * limit)) - (drawn() < 0.3), spec.high)


def executions(row: type[Instruction], count: int) -> Iterator[tuple[Instruction, Memory]]:
    """Random legal instructions of a row, each with a memory of random bytes that it can make sense of."""
    found = 0
    for seed in range(4 * count):
        instruction = legal_instructions(row, seed + 1)[seed]
        memory = filled_memory(program_of([instruction]), seed)
        if make_readable(instruction, memory):
            yield instruction, memory
            found += 1
            if found == count:
                return
    raise AssertionError(f"{row.mnemonic}: only {found} instructions could be given operands")


def make_readable(instruction: Instruction, memory: Memory) -> bool:
    """Put operands where not every byte sequence is one; False if they need more room than the instruction has."""
    fields: Any = instruction
    if instruction.mnemonic == "dma.gather":
        numbers = good_indices(fields, np.random.default_rng(fields.size))
        memory.bytes_at(Space(fields.index_space), fields.index, numbers.nbytes)[:] = numbers.view(
            np.uint8
        ).ravel()
        return True
    if instruction.mnemonic in ("mac.convolve", "mac.depthwise"):
        block = _modest_parameters(fields, np.random.default_rng(fields.ofm_depth))
        memory.bytes_at(Space.SCRATCHPAD, fields.parameters, len(block))[:] = np.frombuffer(block, np.uint8)
        return True
    if instruction.mnemonic != "dma.unpack":
        return True
    zero = fields.zero % 256
    spread = np.random.default_rng(fields.weights).normal(zero, 9, fields.weights)
    for weights in (spread.clip(0, 255).astype(np.uint8), np.full(fields.weights, zero, np.uint8)):
        block = pack(weights, zero)
        if len(block) <= fields.packed:
            address = fields.source + fields.plain
            memory.bytes_at(Space(fields.source_space), address, len(block))[:] = np.frombuffer(
                block, np.uint8
            )
            return True
    return False


def _modest_parameters(fields: Any, rng: np.random.Generator) -> bytes:
    """Parameters of a convolution that leave its sums on the scale of codes: random ones mostly saturate them."""
    channels = fields.ofm_depth
    scales = channels if fields.per_channel else 1
    block = rng.integers(-500, 500, channels).astype("<i8" if fields.int16 else "<i4").tobytes()
    if fields.rescale:
        return block + rng.uniform(0.001, 0.1, scales).astype("<f4").tobytes()
    multipliers = rng.integers(1 << 30, 1 << 31, scales).astype("<i4")
    bounds = np.array([-30000, 31000], "<i2").tobytes() if fields.int16 else b""
    return block + multipliers.tobytes() + rng.integers(-9, -2, scales).astype(np.int8).tobytes() + bounds


def good_indices(gather: Any, rng: np.random.Generator) -> NDArray[Any]:
    """A list of indices that a `dma.gather` takes, int32 or int64 [batches * rows, entries].

    They are within its limits, from the end, or beyond them if it clamps.
    """
    limits = np.array([gather.limit0, gather.limit1, gather.limit2, gather.limit3][: gather.entries + 1]) + 1
    count = (gather.batches + 1) * (gather.rows + 1)
    last = limits.copy()
    last[-1] -= gather.span
    low, high = ((0 * last, last), (0 * last, last), (-9 - last, last + 9))[gather.bounds]
    numbers = rng.integers(low, high, (count, len(limits)))
    if gather.bounds == 1:  # half of them from the end
        numbers -= limits * rng.integers(0, 2, numbers.shape)
    return np.ascontiguousarray(numbers, INDEX_TYPES[gather.index_type])
