"""How long transfers between the memories take by estimate, from the parameters that the machine has too.

What the machine finds out and this does not: transfers that meet at a port, runs shorter than a burst, and rows that
are open by chance. Inputs and outputs of the network are taken to lie where all feature maps do.
"""

from __future__ import annotations

from math import ceil

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import PortTiming, Space


class Transfers:
    """The rates of one machine.

    constants, maps, code: the memories of constants, of feature maps, and of the instructions.
    cycles_per_byte: of each memory's port, by space, for a long run of bytes: whole cycles per grant, and what each row
                     is waited for; 0 for the scratchpad, whose bytes pass no port.
    map_burst_bytes: of the memory of feature maps.
    gap_cycles:      of each memory: from the start of a load to the first byte that passes; its channel does nothing
                     else meanwhile.
    """

    def __init__(self, hardware: Hardware) -> None:
        dma = hardware.dma
        self.constants, self.maps, self.code = (
            hardware.holder(content) for content in ("constants", "activations", "code")
        )
        timings = [hardware.port_timing(space) for space in hardware.outer_spaces]
        self.cycles_per_byte = (0.0, *map(_cycles_per_byte, timings))
        self.gap_cycles = (0, *(dma.setup_cycles + timing.latency_cycles for timing in timings))
        self.map_burst_bytes = hardware.port(self.maps).burst_bytes
        self._port_bytes = dma.port_bytes_per_cycle
        self._decoded_bytes = min(dma.port_bytes_per_cycle, dma.decoder_bytes_per_cycle)

    def no_bytes(self) -> list[float]:
        """Bytes by memory, to be added up: none yet."""
        return [0] * len(self.cycles_per_byte)

    def cycles(self, space: Space, size_bytes: float) -> float:
        """The time in which bytes pass the port of a memory."""
        return size_bytes * self.cycles_per_byte[space]

    def together_cycles(self, traffic: list[float]) -> float:
        """The time in which bytes by memory pass their ports, all at the same time."""
        return max([size * rate for size, rate in zip(traffic, self.cycles_per_byte, strict=True)])

    def port_cycles(self, size_bytes: float, weights: float = 0) -> float:
        """The time in which bytes, and packed weights as they unpack, pass the port to the scratchpad."""
        return size_bytes / self._port_bytes + (weights / self._decoded_bytes if weights else 0)

    def load_cycles(self, space: Space, size_bytes: float, packed_bytes: int = 0, weights: int = 0) -> float:
        """The time that a load keeps its channel: `packed_bytes` of its bytes unpack to so many weights."""
        passing = self.port_cycles(size_bytes - packed_bytes, weights)
        return self.gap_cycles[space] + max(self.cycles(space, size_bytes), passing)


def _cycles_per_byte(timing: PortTiming) -> float:
    grant_cycles = ceil(timing.grant_bytes // timing.burst_bytes * timing.burst_cycles - 1e-9)
    visit_cycles = grant_cycles * (timing.row_bytes // timing.grant_bytes)
    return (visit_cycles + timing.exposed_miss_cycles(visit_cycles)) / timing.row_bytes
