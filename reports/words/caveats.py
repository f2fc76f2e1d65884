"""What the numbers of a program do not hold, said wherever they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npusim.isa.engines.mac_array import MOST_BITS
from npusim.isa.hardware.units import Unit
from npusim.isa.program.program import Program


def caveats(program: Program) -> Iterator[str]:
    """A sentence or two about each thing that makes the numbers of a program an estimate."""
    if program.unknown_operators:
        yield _unknown(program.unknown_operators)
    if program.timing_only:
        yield (
            "ESTIMATE: constants are known by their size only. Weights are loaded as they are: how far they would pack "
            "depends on their values. There are no outputs."
        )
    array = program.hardware.mac_array
    if array.few_bits and any(layer.unit == Unit.MAC.kind.name for layer in program.layers):
        yield (
            f"ESTIMATE: in time, energy, traffic and room a constant weight has {array.weight_bits} bits "
            f"(mac_array.weight_bits). Results are those of the model's own weights, of {MOST_BITS} bits."
        )


def _unknown(operators: Mapping[str, int]) -> str:
    """Says which operators npusim does not have, and what that does to the numbers."""
    named = ", ".join(f"{op} ({count})" for op, count in operators.items())
    what = "1 operator is" if len(operators) == 1 else f"{len(operators)} operators are"
    return (
        f"ESTIMATE: {what} not known to npusim: {named}. Each is timed as a host layer by the bytes that it reads and "
        "writes; what it computes is not counted, and there are no outputs."
    )
