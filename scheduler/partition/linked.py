"""Programs of several devices, one behind the other, as one executable.

Every tensor that crosses from one program to another has a place: where the program that computes it leaves it. In
front of a launch it is copied to where the program reads it. An input of the network lies where the program that first
reads it wants it, and is copied for others. Where a piece of another device begins the host goes from one to the next
(`Transfer.handover`), unless it has control anyway: the layer before or behind is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable, Launch, Place, Step
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Tensor
from npusim.scheduler.partition.windows import Windows


@dataclass(frozen=True, slots=True)
class Part:
    """A program of a network, on a core.

    inputs, outputs: the tensors of the network that its inputs and outputs are, by number, in its order.
    device:          whose it is; between programs of one device there is no handover.
    """

    program: Program
    core: int
    device: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def linked(
    name: str,
    hardware: Hardware,
    parts: Sequence[Part],
    inputs: Sequence[tuple[int, Tensor]],
    outputs: Sequence[tuple[int, Tensor]],
) -> Executable:
    """The executable of the programs of a network, in an order in which they can run.

    hardware: of core 0, which copies what crosses.
    inputs, outputs: of the network, by number; an output may be an input, a constant, or there twice.

    Raises GraphError for an output that is a constant without data.
    """
    made = _Linking(Windows(hardware), {})
    steps: list[Step] = []
    before: Part | None = None
    for part in parts:
        handover = before is not None and part.device != before.device and not _meets_host(before, part)
        steps += made.take(part, f"{name}/{len(made.windows.programs)}", handover and _runs(part))
        before = part if _runs(part) else before
    return Executable(
        name,
        hardware,
        tuple(made.windows.programs),
        tuple(steps),
        tuple(made.place(number, tensor) for number, tensor in inputs),
        tuple(made.place(number, tensor) for number, tensor in outputs),
        made.windows.states(),
        bytes(made.windows.values),
    )


@dataclass
class _Linking:
    """The windows so far, and where tensors lie, by number."""

    windows: Windows
    places: dict[int, Place]

    def take(self, part: Part, name: str, handover: bool) -> list[Step]:
        """The steps of a part."""
        window = len(self.windows.programs)
        self.windows.programs.append(part.program)
        moves = []
        for number, read in zip(part.inputs, part.program.inputs, strict=True):
            if number in self.places:
                moves.append((self.places[number], Place(window, read)))
            else:
                self.places[number] = Place(window, read)
        for number, written in zip(part.outputs, part.program.outputs, strict=True):
            self.places[number] = Place(window, written)
        launch = [Launch(window, part.core)] if _runs(part) else []
        return [*self.windows.transfers(name, moves, handover=handover), *launch]

    def place(self, number: int, tensor: Tensor) -> Place:
        """Return the place of a tensor, allocating one if no program has it."""
        if number not in self.places:
            self.places[number] = self.windows.own(tensor)
        return self.places[number]


def _runs(part: Part) -> bool:
    return part.program.instructions > 0


def _meets_host(before: Part, after: Part) -> bool:
    """Whether the host's own layer ends the one or begins the other."""
    ends = [layer.unit for layer in before.program.layers if layer.unit != "none"]
    begins = [layer.unit for layer in after.program.layers if layer.unit != "none"]
    return "host" in (*ends[-1:], *begins[:1])
