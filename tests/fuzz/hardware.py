"""Random hardware: a preset with any of its parameters changed, within what a hardware file may say."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.file import change, hardware, list_presets
from npusim.isa.hardware.hardware import Hardware

VALUES: dict[str, tuple[Any, ...]] = {
    "clock_mhz": (500.0, 50.0, 2000.0, 333.3),
    "front_end.queue_depth": (16, 1, 2, 64),
    "front_end.fetch_instructions": (4, 1, 3, 16),
    "front_end.decode_cycles": (1, 0, 3),
    "dma.channels": (2, 1, 3, 4),
    "dma.setup_cycles": (16, 0, 100),
    "dma.port_bytes_per_cycle": (8, 1, 3, 64),
    "dma.decoder_bytes_per_cycle": (0, 1, 8),
    "dram.bandwidth_gb_per_s": (0.5, 0.05, 8.0, 100.0),
    "dram.latency_ns": (128.0, 0.0, 1000.0),
    "dram.row_bytes": (1024, 4096, 64),
    "dram.row_miss_ns": (25.0, 0.0, 200.0),
    "dram.banks": (1, 2, 16),
    "dram.burst_bytes": (32, 8, 64, 1),
    "dram.grant_bytes": (512, 64, 1024),
    "dram.outstanding_requests": (16, 1, 4),
    "scratchpad.size_kib": (64, 4, 5, 6, 8, 12, 24, 256, 2048),
    "scratchpad.banks": (16, 1, 2, 4),
    "scratchpad.bank_ports": (2, 1, 8),
    "scratchpad.port_bytes": (16, 1, 4),
    "mac_array.rows": (16, 1, 2, 5, 8, 32),
    "mac_array.columns": (8, 1, 3, 4, 16, 32),
    "mac_array.dataflow": ("both", "weight_stationary", "output_stationary"),
    "mac_array.shadow_weights": (True, False),
    "mac_array.accumulator_kib": (16, 1, 2),
    "mac_array.ifm_bytes_per_cycle": (16, 1, 4),
    "mac_array.weight_bytes_per_cycle": (8, 1, 64),
    "mac_array.output_lanes": (8, 1, 4),
    "vector.lanes": (8, 1, 3, 16),
    "vector.startup_cycles": (8, 0),
    "vector.exp_cycles": (8, 1),
    "host.core": ("cortex-m7", "cortex-a53"),
    "technology.node_nm": (22, 28, 16, 7),
}


def random_hardware(rng: np.random.Generator) -> Hardware:
    """A machine that a hardware file may describe; changes that break a rule are left out."""
    presets = list_presets()
    machine = hardware(presets[rng.integers(len(presets))])
    for path in rng.permutation(list(VALUES))[: rng.integers(0, len(VALUES))]:
        options = VALUES[str(path)]
        try:
            machine = change(machine, {str(path): options[rng.integers(len(options))]})
        except HardwareError:
            continue
    return machine
