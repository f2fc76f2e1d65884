"""The linker of programs for several devices into one executable that runs them one after the other.

A tensor between two programs is placed where the first program writes it. Before a launch it is copied to where the
program reads it. An input of the network is placed where the first program that reads it expects it, and is copied for
others. Between pieces of different devices, control passes by way of the host (`Transfer.handover`), unless the host
has it already because it runs the layer before or after.
"""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable, Launch, Place, Step
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Tensor
from npusim.scheduler.partition.windows import Windows


@dataclass(frozen=True, slots=True)
class Part:
    """A program of a network, on a core.

    inputs, outputs: numbers of the network's tensors that the program reads and writes, in the program's order.
    device:          the device that runs it; programs of one device need no handover between them.
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
    """Return the executable of a network's programs, which come in an order in which they can run.

    hardware: that of core 0, which copies tensors between programs.
    inputs, outputs: tensor numbers of the network; an output may be an input, a constant, or named twice.

    Raises GraphError for an output that is a constant without data.
    """
    linking = _Linking(Windows(hardware), {})
    steps: list[Step] = []
    before: Part | None = None
    for part in parts:
        handover = before is not None and part.device != before.device and not _meets_host(before, part)
        steps += linking.take(part, f"{name}/{len(linking.windows.programs)}", handover and _runs(part))
        before = part if _runs(part) else before
    return Executable(
        name,
        hardware,
        tuple(linking.windows.programs),
        tuple(steps),
        tuple(linking.place(number, tensor) for number, tensor in inputs),
        tuple(linking.place(number, tensor) for number, tensor in outputs),
        linking.windows.states(),
        bytes(linking.windows.values),
    )


@dataclass
class _Linking:
    """The state of a linker: the programs' windows so far, and the places of tensors by number."""

    windows: Windows
    places: dict[int, Place]

    def take(self, part: Part, name: str, handover: bool) -> list[Step]:
        """Add a part's program, and return its steps: the transfers of its operands, and its launch."""
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
    """Return whether a host layer ends the first program or begins the second one."""
    ends = [layer.unit for layer in before.program.layers if layer.unit != "none"]
    begins = [layer.unit for layer in after.program.layers if layer.unit != "none"]
    return "host" in (*ends[-1:], *begins[:1])
