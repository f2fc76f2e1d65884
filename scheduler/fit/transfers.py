"""How long transfers between DRAM and scratchpad take by estimate, from the parameters that the machine has too.

What the machine finds out and this does not: transfers that meet at the DRAM port, runs shorter than a burst, and
rows that are open by chance.
"""

from __future__ import annotations

from math import ceil

from npusim.isa.hardware.hardware import Hardware


class Transfers:
    """The rates of one machine.

    cycles_per_byte: of the DRAM port, for a long run of bytes: whole cycles per grant, and a row miss per row.
    gap_cycles:      from the start of a load to the first byte that passes; its channel does nothing else meanwhile.
    """

    def __init__(self, hardware: Hardware) -> None:
        dram, dma = hardware.dram, hardware.dma
        grant_bytes = min(dram.grant_bytes, dram.row_bytes)
        grant_cycles = ceil(grant_bytes // dram.burst_bytes * hardware.dram_burst_cycles - 1e-9)
        row_miss_cycles = hardware.cycles_of_ns(dram.row_miss_ns)
        self.cycles_per_byte = grant_cycles / grant_bytes + row_miss_cycles / dram.row_bytes
        self.gap_cycles = dma.setup_cycles + hardware.dram_latency_cycles
        self._port_bytes = dma.port_bytes_per_cycle
        self._decoded_bytes = min(dma.port_bytes_per_cycle, dma.decoder_bytes_per_cycle)

    def dram_cycles(self, size_bytes: float) -> float:
        """The time in which bytes pass the DRAM port."""
        return size_bytes * self.cycles_per_byte

    def port_cycles(self, size_bytes: float, weights: float = 0) -> float:
        """The time in which bytes, and packed weights as they unpack, pass the port to the scratchpad."""
        return size_bytes / self._port_bytes + (weights / self._decoded_bytes if weights else 0)

    def load_cycles(self, size_bytes: float, packed_bytes: int = 0, weights: int = 0) -> float:
        """The time that a load keeps its channel: `packed_bytes` of its bytes unpack to so many weights."""
        passing = self.port_cycles(size_bytes - packed_bytes, weights)
        return self.gap_cycles + max(self.dram_cycles(size_bytes), passing)
