"""The places of values in an executable under construction: in the windows of its programs, or in its own window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Placement
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import OWN, Place, Step, Transfer, conflicts
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Tensor, quoted

Moves = Sequence[tuple[Place, Place]]


@dataclass
class Windows:
    """The programs of an executable so far, and the content of its own window.

    hardware: that of the core which runs transfers.
    """

    hardware: Hardware
    programs: list[Program] = field(default_factory=list)
    values: bytearray = field(default_factory=bytearray)

    def own(self, tensor: Tensor) -> Place:
        """Allocate a place in the executable's own window. That of a constant holds its value from the beginning.

        Raises GraphError for a constant that is known by its size only.
        """
        content = bytes(tensor.type.size_bytes)
        if tensor.constant:
            if tensor.array is None:
                raise GraphError(
                    f"constant {quoted(tensor.name)} is known by its size only; outside of programs it must have data"
                )
            content = tensor.array.tobytes()
        space = self.hardware.holder("activations")
        self.values += bytes(-len(self.values) % self.hardware.port(space).burst_bytes)
        address = len(self.values)
        self.values += content
        return Place(OWN, Placement(tensor.name, tensor.type, address, space))

    def states(self) -> tuple[Place, ...]:
        """Return the states of all programs."""
        return tuple(
            Place(number, state) for number, program in enumerate(self.programs) for state in program.states
        )

    def transfers(self, name: str, moves: Moves, *, handover: bool = False) -> list[Step]:
        """Return steps that copy values as if all copies happened at once.

        If one copy would overwrite what another one reads, all go by way of temporary places.
        handover: let a handover of control precede the copies, even if there are none.
        """
        moves = [
            (source, target)
            for source, target in moves
            if (source.window, source.tensor.address) != (target.window, target.tensor.address)
        ]
        if not moves and not handover:
            return []
        if not conflicts(moves):
            return [Transfer(name, tuple(moves), handover=handover)]
        aside = [self.own(Tensor(source.tensor.name, source.tensor.type)) for source, _ in moves]
        away, back = (
            tuple(zip((source for source, _ in moves), aside, strict=True)),
            tuple(zip(aside, (target for _, target in moves), strict=True)),
        )
        return [Transfer(f"{name}/aside", away, handover=handover), Transfer(name, back)]
