"""Programs between the steps of an execution: copies of values to the next program, and reads of a value by the host.

Both are programs of a few instructions, which are fetched, timed and counted like any other. They take the same cycles
as the transfers and decisions of an executable (`npusim.isa.program.executable`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from npusim.isa.base.placement import HostCall, Placement
from npusim.isa.base.tensor import TensorType
from npusim.isa.base.workload import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.table import encode_all
from npusim.isa.program.executable import OWN, Executable, Place, Transfer, link
from npusim.isa.program.program import Layer, Program
from npusim.machine.system import execute
from npusim.numbers.staged import Launch

_DISTINCT = 512
"""Number of different transfers and host reads whose cycles are cached."""


@lru_cache(_DISTINCT)
def transfer(hardware: Hardware, sizes_bytes: tuple[int, ...]) -> Launch:
    """Copy tensors of these sizes, in parallel on the DMA channels."""
    space, values, moves = hardware.holder("activations"), bytearray(), []
    burst = hardware.port(space).burst_bytes
    for size in sizes_bytes:
        ends = []
        for _ in ("from", "to"):
            values += bytes(-len(values) % burst)
            ends.append(Place(OWN, Placement("value", TensorType("int8", (size,)), len(values), space)))
            values += bytes(size)
        moves.append((ends[0], ends[1]))
    steps = (Transfer("between programs", tuple(moves)),)
    return _timed(link(Executable("transfer", hardware, (), steps, (), (), (), bytes(values))).programs[0])


@lru_cache(_DISTINCT)
def look(hardware: Hardware, size_bytes: int, what: str) -> Launch:
    """Let the host read or write a value of so many bytes; what: the action, for the report."""
    space = hardware.holder("activations")
    work = Workload("elementwise", elements=1, input_bytes=size_bytes)
    place = Placement(what, TensorType("int8", (size_bytes,)), 0, space)
    row = hardware.port(space).row_bytes
    address = -(-size_bytes // row) * row if hardware.holder("code") == space else 0
    code = encode_all([Call(index=0)])
    program = Program(
        name=what,
        hardware=hardware,
        code=code,
        constants=b"",
        dram_size_bytes=address + code.size,
        code_address=address,
        inputs=(),
        outputs=(),
        layers=(Layer(what, what, "host", work),),
        layer_of=np.zeros(len(code), np.uint32),
        host_calls=(HostCall(what, what, {}, (place,), (), work, f"the host has to {what}"),),
        code_space=hardware.holder("code"),
    )
    return _timed(program)


def _timed(program: Program) -> Launch:
    return Launch(program, execute(program, data=False))
