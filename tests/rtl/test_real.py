"""The real lanes of the vector unit: model and register-transfer description agree on bytes, cycles, port accesses."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.isa.arithmetic.real import BINARY, UNARY
from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions.elementwise import NAMES, Binary
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.lanes import format_of
from npusim.isa.instructions.vector import TYPES, Convert, Unary
from npusim.isa.instructions.windows import Pool

from .conftest import sized
from .model import executed
from .random_real import KINDS, draw_case, draw_hardware, draw_memory
from .random_vector import Case
from .real_referee import RealReferee

LANES = (4, 3, 16)[: sized(1, 2, 3)]
INSTRUCTIONS = sized(40, 120, 300)
"""For each number of lanes and kind."""

referee = lru_cache(RealReferee)


def same_reals(rtl: NDArray[np.uint8], case: Case) -> NDArray[np.uint8]:
    """The RTL's memory with the model's bits where both have what is no number: IEEE 754 leaves open which."""
    instruction: Any = case.instruction
    model = executed(instruction, case.scratchpad)
    if isinstance(instruction, Convert):
        dtype = np.dtype(TYPES[instruction.target])
    else:
        dtype = np.dtype(instruction.number_format.name)
    if dtype.kind == "f" and not (isinstance(instruction, Binary) and instruction.output_bytes == 1):
        start = instruction.ofm if isinstance(instruction, Pool) else instruction.output
        end = start + (len(rtl) - start) // dtype.itemsize * dtype.itemsize
        rtl, expected = rtl.copy(), model[start:end].view(dtype)
        results = rtl[start:end].view(dtype)
        open_ = np.isnan(results) & np.isnan(expected)
        results[open_] = expected[open_]
    return rtl


def differences(case: Case, lanes: int, hardware: Hardware | None = None) -> dict[str, object]:
    """What RTL and model disagree on: (RTL, model) by name; `hardware` is the model's, if not the same."""
    run = referee(lanes).run(case.instruction, case.hardware, case.scratchpad)
    cost = case.instruction.cost(Context(hardware or case.hardware))
    found: dict[str, object] = {
        name: (rtl, model)
        for name, rtl, model in (
            ("cycles", run.cycles, cost.cycles),
            ("bytes read", run.bytes_read, cost.actions["scratchpad_read_byte"]),
            ("bytes written", run.bytes_written, cost.actions["scratchpad_write_byte"]),
        )
        if rtl != model
    }
    wrong = np.flatnonzero(same_reals(run.scratchpad, case) != executed(case.instruction, case.scratchpad))
    if len(wrong):
        found["memory"] = f"{len(wrong)} bytes, the first at {wrong[0]}"
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", LANES)
def test_random_instructions(lanes: int, kind: str) -> None:
    """Random functions, sizes, strides and memory on units with random lanes and cycles."""
    rng = np.random.default_rng([lanes, list(KINDS).index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_case(rng, lanes, kind)
        found = differences(case, lanes)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.vector}"


@pytest.mark.parametrize("element", [0, 1], ids=["float16", "float32"])
@pytest.mark.parametrize("row", [*BINARY, *UNARY], ids=lambda row: row.name)
def test_every_function(row: Any, element: int) -> None:
    """What random instructions draw a few times at best: each function, 600 numbers."""
    rng = np.random.default_rng(element)
    of = format_of("float32" if element else "float16")
    if row in BINARY:
        fields = {"a": 0, "b": 4096, "rows": 1, "columns": 600, "a_column_stride": 1, "b_column_stride": 1}
        instruction: Any = Binary(format=of, function=NAMES.index(row.name), output=8192, **fields)
    else:
        function = UNARY.index(row)
        instruction = Unary(format=of, function=function, output=8192, size=600, alpha=0x3F000000)
    case = Case(instruction, draw_hardware(rng, 4), draw_memory(rng, element))
    assert not differences(case, 4)


def test_one_cycle_is_noticed() -> None:
    """The comparison is able to fail."""
    case = draw_case(np.random.default_rng(0), 4, "convert")
    startup_cycles = case.hardware.vector.startup_cycles + 1
    other = Hardware(
        name="rtl", vector=Vector(**{**dict(case.hardware.vector), "startup_cycles": startup_cycles})
    )
    assert list(differences(case, 4, other)) == ["cycles"]
