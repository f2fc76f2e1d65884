"""One MAC instruction in registers and in the model, held against each other."""

from __future__ import annotations

import numpy as np

from npusim.isa.instructions.instruction import Context

from .model import executed
from .random_mac import Case
from .unit_bench import Run


def disagreements(
    run: Run, case: Case, *, hidden_cycles: int = 0, bytes_read: int | None = None
) -> dict[str, object]:
    """What registers and model disagree on: (registers, model) by name; empty when they agree.

    hidden_cycles: of the array, which the model does not count.
    bytes_read:    by the ports, where it is not what the model charges for.
    """
    cost = case.instruction.cost(Context(case.hardware))
    charged = cost.actions["scratchpad_read_byte"] - case.instruction._parameter_bytes()
    found: dict[str, object] = {
        name: (registers, model)
        for name, registers, model in (
            ("cycles", run.cycles, cost.cycles),
            ("array cycles", run.array_cycles - hidden_cycles, cost.array_cycles),
            ("bytes read", run.bytes_read, charged if bytes_read is None else bytes_read),
            ("bytes written", run.bytes_written, cost.actions["scratchpad_write_byte"]),
        )
        if registers != model
    }
    wrong = np.flatnonzero(run.scratchpad != executed(case.instruction, case.scratchpad))
    if len(wrong):
        found["memory"] = f"{len(wrong)} bytes, the first at {wrong[0]}"
    return found
