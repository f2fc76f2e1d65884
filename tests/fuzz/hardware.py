"""Random hardware: a preset with any of its parameters changed, within what a hardware file may say."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.file import change, hardware, list_presets
from npusim.isa.hardware.hardware import Hardware

VALUES: dict[str, tuple[Any, ...]] = {
    "clock_mhz": (500.0, 50.0, 2000.0, 333.3),
    "overlap": ("all", "loads", "reloads", "none"),
    "front_end.layer_cycles": (0, 1, 777),
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
    "mac_array.kind": ("systolic", "block", "bit_serial", "stream"),
    "mac_array.weight_bits": (8, 2, 3, 5, 7),
    "mac_array.block.micro_height": (1, 2, 3),
    "mac_array.block.micro_width": (2, 1, 5),
    "mac_array.block.micro_channels": (8, 4, 16),
    "mac_array.block.depth_first_channels": (32, 16),
    "mac_array.block.part_kernel_channels": (16, 4),
    "mac_array.block.depthwise_elements": (4, 9),
    "mac_array.block.kernel_side": (8, 2, 3),
    "mac_array.block.most_height": (32, 1, 4),
    "mac_array.block.most_channels": (128, 16),
    "mac_array.block.buffer_kib": (20, 2, 64),
    "mac_array.block.brick_channels": (16, 1),
    "mac_array.block.output_cycles": (0.5, 0.1, 3.0),
    "mac_array.block.access_cycles": (32, 0),
    "mac_array.bit_serial.side": (3, 1, 4),
    "mac_array.bit_serial.strided_side": (2, 1),
    "mac_array.bit_serial.channels": (32, 5, 8),
    "mac_array.bit_serial.input_channels": (16, 1, 7),
    "mac_array.bit_serial.depthwise_channels": (16, 4),
    "mac_array.bit_serial.kernel_side": (3, 1, 5),
    "mac_array.bit_serial.output_cycles": (66, 0),
    "mac_array.bit_serial.core_macs_per_cycle": (10.0, 0.01),
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
