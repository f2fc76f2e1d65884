"""What instructions demand and where their other cycles go: for every row on every hardware, the parts add up."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.hardware.units import Unit, cycles_of
from npusim.isa.instructions.elementwise import Binary
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.reduction import FUNCTIONS, Reduce
from npusim.isa.instructions.resize import Resize
from npusim.isa.instructions.rows import Softmax
from npusim.isa.instructions.table import all_instructions
from npusim.isa.instructions.vector import Convert, Lookup
from npusim.isa.instructions.windows import Pool

from ..examples import NIGHT
from .samples import CALLS, legal_instructions, tiny_hardware

SAMPLES = 20 if NIGHT else 8

MACHINES: Mapping[str, Hardware] = MappingProxyType(
    {
        "tiny": tiny_hardware(),
        "edge-128": hardware("edge-128"),
        "mobile-4096": hardware("mobile-4096"),
        "no shadow, narrow ports": change(
            tiny_hardware(),
            {
                "mac_array.shadow_weights": False,
                "mac_array.ifm_bytes_per_cycle": 1,
                "mac_array.output_lanes": 1,
            },
        ),
        "slow lanes": change(
            tiny_hardware(),
            {
                f"vector.{name}": 7 + at
                for at, name in enumerate(Vector.model_fields)
                if name not in ("lanes", "fused_lookup", "int16_passes")
            }
            | {"vector.lanes": 3, "vector.resize_cycles": 0},
        ),
    }
)

rows = pytest.mark.parametrize("row", all_instructions(), ids=lambda row: row.mnemonic)


@rows
@pytest.mark.parametrize("machine", MACHINES)
def test_demand_and_split_add_up_to_the_cycles(row: type[Instruction], machine: str) -> None:
    context = Context(MACHINES[machine], CALLS)
    for instruction in legal_instructions(row, SAMPLES):
        if instruction.misfits(context):
            continue  # it has no cost there
        demand, split = instruction.demand(context), instruction.split(context)
        kind = instruction.unit.kind
        if not kind.advances:
            # Its time passes at the DRAM port, or nowhere; the accounts find it there.
            assert (demand, dict(split)) == (0, {})
            continue
        assert kind.resource is not None
        assert set(split) <= {cause.name for cause in row.causes}
        assert min(split.values(), default=0) >= 0
        needed = cycles_of(demand, kind.resource.per_cycle(context.hardware))
        assert needed + sum(split.values()) == instruction.cost(context).cycles, instruction


SUM, ARG_MAX = FUNCTIONS.index("sum"), FUNCTIONS.index("arg_max")
CYCLES = {
    "vector_add_q8": "add_cycles",
    "vector_mul_q8": "mul_cycles",
    "vector_max": "max_cycles",
    "vector_pool_step": "pool_cycles",
    "vector_divide": "divide_cycles",
    "vector_add_i32": "reduce_cycles",
    "vector_lut": "lut_cycles",
    "vector_exp": "exp_cycles",
    "requantise": "requantise_cycles",
    "vector_literal_add": "literal_cycles",
    "vector_literal_mul": "literal_cycles",
    "vector_literal_divide": "literal_divide_cycles",
    "vector_fused": "fused_cycles",
    "vector_dequantise": "dequantise_cycles",
    "vector_moments": "moment_cycles",
    "vector_quantise": "quantise_cycles",
    **{
        f"vector_{element}_{effort}": cycles
        for element in ("float16", "float32")
        for effort, cycles in (
            ("add", "float_cycles"),
            ("multiply", "float_cycles"),
            ("divide", "float_divide_cycles"),
            ("function", "float_function_cycles"),
        )
    },
}
"""How long a lane takes for an action of a vector instruction."""


@pytest.mark.parametrize(
    "row", [row for row in all_instructions() if row.home is Unit.VECTOR], ids=lambda row: row.mnemonic
)
def test_vector_instructions_demand_what_their_actions_take(row: type[Instruction]) -> None:
    machine = MACHINES["slow lanes"]
    assert {*CYCLES.values(), "startup_cycles", "resize_cycles"} == {
        name for name in Vector.model_fields if name.endswith("_cycles")
    }
    for instruction in legal_instructions(row, SAMPLES):
        counted = instruction.cost(Context(machine)).actions
        taken = {name: count for name, count in counted.items() if not name.startswith("scratchpad_")}
        lane_cycles = sum(count * getattr(machine.vector, CYCLES[name]) for name, count in taken.items())
        # Real lanes are counted in cycles of the integer lanes, which are the unit of the resource.
        (real_lanes,) = {
            getattr(machine.vector, f"{name.split('_')[1]}_lanes")
            if "_float" in name
            else machine.vector.lanes
            for name in taken
        }
        assert instruction.demand(Context(machine)) == lane_cycles * machine.vector.lanes // real_lanes


@pytest.mark.parametrize(
    ("instruction", "demand"),
    [
        (Lookup(size=100), 100),
        (Binary(function=0, rows=3, columns=7), 3 * 7 * 2),
        (Pool(ofm_height=2, ofm_width=3, depth=5, kernel_height=2, kernel_width=2), 2 * 3 * 5 * (4 + 4)),
        (Pool(function=1, ofm_height=2, ofm_width=3, depth=5, kernel_height=2, kernel_width=2), 2 * 3 * 5 * 4),
        (Reduce(function=SUM, outer=2, parts=3, middle=4, count=5, inner=6), 2 * 4 * 6 * (3 * 5 + 1)),
        (Reduce(function=ARG_MAX, outer=2, parts=1, middle=1, count=5, inner=6, wide=1), 2 * 6 * 5),
        (Resize(bilinear=1, ofm_height=2, ofm_width=3, depth=4), 2 * 3 * 4 * 4 * 2),
        (Resize(ofm_height=2, ofm_width=3, depth=4), 2 * 3 * 4),
        (Convert(size=100), 100),
        (Softmax(rows=3, depth=10), 3 * (10 * (1 + 8 + 1 + 8 + 1) + 8)),
        (
            Convolve(
                ofm_height=2, ofm_width=3, ofm_depth=4, kernel_height=3, kernel_width=3, ifm_depth=5,
            ),
            2 * 3 * 4 * 9 * 5,
        ),
    ],
    ids=lambda value: getattr(value, "mnemonic", ""),
)  # fmt: skip
def test_demands_by_hand(instruction: Instruction, demand: int) -> None:
    machine = hardware("edge-128")
    vector = machine.vector
    assert (vector.add_cycles, vector.divide_cycles, vector.exp_cycles) == (2, 4, 8)
    assert instruction.demand(Context(machine)) == demand


def test_elements_between_pixels_may_have_a_time_of_their_own() -> None:
    """8 cycles for each of 2 x 3 x 4, whatever is multiplied for it; the nearest pixel is fetched as before."""
    machine = change(hardware("edge-128"), {"vector.resize_cycles": 8})
    size = {"ofm_height": 2, "ofm_width": 3, "depth": 4}
    assert Resize(bilinear=1, **size).demand(Context(machine)) == 2 * 3 * 4 * 8
    assert Resize(**size).demand(Context(machine)) == 2 * 3 * 4
