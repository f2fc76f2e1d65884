"""Model of the host CPU: time and energy of one operator on a named core.

It has two uses. It gives the cost of the operators that the NPU leaves to the host, and the cost of a whole network by
which the ratios of PerformanceInfo divide. On n threads at clock f, one operator takes

    gemm         macs / (gemm rate * K / (K + k_half) * n * f)        K: length of one dot product
    depthwise    macs / (depthwise rate * n * f)
    elementwise  (elements * cycles per element + rescaled results * cycles per result) / (n * f)
    these three  + values beyond the data cache * cycles per value / (n * f)
    move         output bytes / (copy rate * f), one thread
    all          max(that, DRAM bytes / bandwidth) + operator overhead; "free" work and handovers take nothing

    energy       time * (energy per cycle and core * n * f + uncore power) + DRAM bytes * energy per byte

DRAM bytes are the weights (read once per inference, too many to stay in a cache) and the part of inputs
and outputs beyond the last-level cache. Values beyond the data cache are inputs and outputs of one operator; they cost
extra where no other cache is behind it, and only on a core for which that was measured (the Cortex-M7). Branch
prediction and thermal limits are not modelled: measured networks are met within about 35 % (tests/isa/test_cpu.py
lists them), those of the Cortex-M7 as docs/silicon.md says.
"""

from __future__ import annotations

import json
from math import ceil

from npusim.isa.base.elements import Rates, Workload
from npusim.isa.base.errors import HardwareError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware, Host

# Cycles of one elementwise operation unless the hardware file gives them (host.element_cycles); an assumption that
# covers add, pool and softmax alike.
ELEMENT_CYCLES: dict[Rates, float] = {"int8": 4.0, "float32": 2.0}

VALUE_BYTES: dict[Rates, int] = {"int8": 1, "float32": 4}
"""Minimum bytes of a value of an input or output."""


@dataclass(frozen=True, slots=True)
class CpuCore:
    """One row of the core table. Rates are multiply-accumulates per cycle and core, sustained, not peak.

    clock_mhz:            clock unless the hardware file gives one.
    gemm, depthwise:      rates of 8-bit and of float32 networks.
    k_half:               dot-product length at which a gemm runs at half its rate.
    operator_us:          fixed cost of one operator (dispatch, threads, tails).
    bandwidth_gb_per_s:   memory that holds the weights.
    last_level_kib:       activations up to this size do not leave the chip.
    data_cache_kib:       inputs and outputs of one operator up to this size take no additional cycles.
    cycles_per_value:     additional cycles of each value beyond that size, read from or written to the SRAM.
    cycles_per_result:    additional cycles of each result of an elementwise operator that is requantized.
    pj_per_cycle:         energy of one busy core cycle at nominal voltage (Ceff * V^2).
    uncore_mw:            interconnect and caches while any core is busy.
    dram_pj_per_byte:     0 where the energy per cycle was measured for the whole board.
    """

    name: str
    clock_mhz: float
    gemm_int8: float
    depthwise_int8: float
    gemm_float32: float
    depthwise_float32: float
    k_half: float
    operator_us: float
    bandwidth_gb_per_s: float
    last_level_kib: int
    copy_bytes_per_cycle: float
    pj_per_cycle: float
    uncore_mw: float
    dram_pj_per_byte: float
    data_cache_kib: int = 0
    cycles_per_value: float = 0.0
    cycles_per_result: float = 0.0


# Where the numbers come from.
#
# Cortex-M: fitted to MLPerf Tiny, closed division (mlcommons/tiny_results_v1.2 and v1.3): ResNet-8, VWW,
# KWS, AD on NUCLEO-L4R5ZI-P (M4), NUCLEO-U575ZI-Q (M33), NUCLEO-H7A3ZI-Q (M7), EK-RA8D1 (M85), together
# with the operator overhead and, where no source separates depthwise from the rest, its rate. Energy
# per cycle is the measured energy of ResNet-8 over its cycles, whole board. M55: the rates of the M85,
# which has the same vector unit; its energy, and the M85's, were not found: M55 as the M33 (both
# 22..40 nm microcontrollers), M85 as the M7. The last level is the on-chip SRAM, bandwidth the on-chip
# flash. float32: one FPU, a third of the int8 rate on the scalar cores, a quarter on the vector cores
# (peak 2 against 8 per cycle); assumptions.
#
# Cortex-M7: gemm, depthwise, operator overhead, cycles per value and per result are the least squares of the relative
# errors over sixteen networks at 400 MHz (STM32H747, STMicroelectronics/stm32ai-modelzoo) and, weighing as much, the
# four of MLPerf Tiny at 280 MHz (STM32H7A3), none of them below 0; 16 KiB is the data cache of both.
# benchmarks/silicon/cortex_m7.py has the fit, the networks that were held out of it, and what each constant is without
# one network or another. Networks with large maps are slower than their products by what such maps cost; without that
# term no rate of depthwise fits both boards. float32: a third of the 8-bit rates, an assumption.
#
# Cortex-A7: fitted to ResNet-8 and MobileNetV1 0.25 on STM32MP135 (STMicroelectronics/stm32ai-modelzoo);
# energy as the A53 at 1.0 V. A53, A55: rates scaled from the A73 and A75 by issue width, the A53 checked
# against MobileNet on the Coral Dev Board (1.5 GHz, 164 and 122 ms). A73, A75: fitted to 16 MobileNetV1
# sizes on Pixel 2 and Pixel 3 (tensorflow/lite/g3doc: models.md, guide/hosted_models.md). A76: MobileNetV1
# on Pixel 4 (g3doc/performance/benchmarks.md); its clock is the mean of one core at 2.84 and three at 2.42
# GHz. A78: as A76. X1: two A76 pipes at 90 %.
#
# Energy per cycle of the A cores: Linux energy-model coefficient (pJ per cycle and V^2) times V^2:
#   A53  84 * 0.99^2, A73 211 * 1.05^2                (arch/arm64/boot/dts/mediatek/mt8183.dtsi)
#   A55 154 * 0.95^2, A75 442 * 0.95^2                (sdm845 device-tree patches)
#   A76 (421 + 3 * 369) / 4 * 0.80^2                  (arch/arm64/boot/dts/qcom/sm8150.dtsi; four cores 2.6 W)
#   A78 as A76; X1 421 * 2 * 0.80^2                   (assumptions)
# Uncore power, last-level sizes of the A cores and copy rates are assumptions; 65 pJ/B is LPDDR4 with PHY.
#
# The last three: data cache, cycles per value beyond it, cycles per 8-bit result.
#
#           MHz   gemm8  dw8   gemm32 dw32  k_half op_us GB/s  LLC   copy pJ/cycle uncore DRAM
# fmt: off
CORES: tuple[CpuCore, ...] = (
    CpuCore("cortex-m4",   120,  0.64, 0.50, 0.20, 0.15,  4, 40,  0.1,   640, 2, 276,   0,  0),
    CpuCore("cortex-m33",  160,  0.72, 0.50, 0.24, 0.17,  4, 30,  0.15,  768, 2, 146,   0,  0),
    CpuCore("cortex-m7",   280,  1.34, 0.57, 0.45, 0.19,  0, 53,  0.4,  1376, 2, 446,   0,  0, 16, 11.2, 46),
    CpuCore("cortex-m55",  400,  3.80, 0.40, 0.95, 0.20, 32, 20,  0.8,  1024, 4, 146,   0,  0),
    CpuCore("cortex-m85",  480,  3.80, 0.40, 0.95, 0.20, 32, 20,  0.8,  1024, 4, 446,   0,  0),
    CpuCore("cortex-a7",  1000,  1.10, 0.20, 0.40, 0.15,  8, 10,  1.5,   256, 8,  84,  20, 65),
    CpuCore("cortex-a53", 1800,  4.00, 0.28, 1.60, 0.30,  8, 20,  3.0,   512, 8,  82,  50, 65),
    CpuCore("cortex-a55", 1800,  8.00, 0.40, 2.00, 0.30,  8, 15,  4.0,  1024, 8, 139,  50, 65),
    CpuCore("cortex-a73", 2350,  5.20, 0.31, 1.64, 0.47,  8, 23,  8.0,  2048, 8, 233, 100, 65),
    CpuCore("cortex-a75", 2800,  7.30, 0.26, 2.86, 0.26,  8,  6, 12.0,  2048, 8, 399, 150, 65),
    CpuCore("cortex-a76", 2525, 22.00, 0.80, 5.70, 0.52,  8,  6, 15.0,  2048, 8, 244, 150, 65),
    CpuCore("cortex-a78", 2600, 22.00, 0.80, 5.70, 0.52,  8,  6, 20.0,  4096, 8, 244, 150, 65),
    CpuCore("cortex-x1",  2840, 40.00, 1.40, 10.5, 0.90,  8,  5, 25.0,  8192, 8, 539, 150, 65),
)
# fmt: on

_BY_NAME = {core.name: core for core in CORES}
CORE_NAMES = tuple(_BY_NAME)


def core_fault(name: str) -> str | None:
    """Return why a name is not in the core table; None if it is."""
    if name in _BY_NAME:
        return None
    near = nearest(name.lower(), _BY_NAME)
    meant = f"did you mean {near}? " if near else ""
    return f"{json.dumps(name)} is not a known core; {meant}Known: {', '.join(_BY_NAME)}"


def cpu_core(name: str) -> CpuCore:
    """Return the core with a name. Raises HardwareError with the most similar known name."""
    fault = core_fault(name)
    if fault is not None:
        raise HardwareError(f"host.core: {fault}")
    return _BY_NAME[name]


def cpu_time_us(workload: Workload, host: Host) -> float:
    """Return the time of one operator in us on the host's threads."""
    return core_time_us(workload, cpu_core(host.core), host)


def core_time_us(workload: Workload, core: CpuCore, host: Host) -> float:
    """Return the time of one operator in us on a given core, with the host's threads and clock."""
    if workload.kind in ("free", "handover"):
        return 0.0
    computing_us = _core_cycles(workload, core, host) / (_threads(workload, host) * _clock_mhz(host, core))
    memory_us = _dram_bytes(workload, core) / (core.bandwidth_gb_per_s * 1e3)
    return max(computing_us, memory_us) + core.operator_us


def cpu_energy_uj(workload: Workload, host: Host) -> float:
    """Return the energy of one operator in uJ on the host's threads, its DRAM traffic included."""
    core = cpu_core(host.core)
    busy_uj = cpu_busy_energy_uj(cpu_time_us(workload, host), host, _threads(workload, host))
    return busy_uj + _dram_bytes(workload, core) * core.dram_pj_per_byte * 1e-6


def cpu_busy_energy_uj(time_us: float, host: Host, threads: int = 1) -> float:
    """Return the energy in uJ of threads that are busy for a time in us, without DRAM traffic."""
    core = cpu_core(host.core)
    power_mw = core.pj_per_cycle * _clock_mhz(host, core) * threads * 1e-3 + core.uncore_mw
    return time_us * power_mw * 1e-3


def host_cycles(workload: Workload, hardware: Hardware) -> int:
    """Return the NPU cycles from handing an operator to the host until its result is back; 0 for free work."""
    if workload.kind == "free":
        return 0
    time_us = cpu_time_us(workload, hardware.host) + hardware.host.handover_us
    return ceil(time_us * hardware.clock_mhz)


def host_energy_uj(workload: Workload, hardware: Hardware) -> float:
    """Return the energy in uJ of the host for one operator, including the handover on one core."""
    if workload.kind == "free":
        return 0.0
    handover_uj = cpu_busy_energy_uj(hardware.host.handover_us, hardware.host)
    return cpu_energy_uj(workload, hardware.host) + handover_uj


def _clock_mhz(host: Host, core: CpuCore) -> float:
    return host.clock_mhz or core.clock_mhz


def _threads(workload: Workload, host: Host) -> int:
    return 1 if workload.kind == "move" else host.threads


def _core_cycles(workload: Workload, core: CpuCore, host: Host) -> float:
    """Return the cycles of an operator on one core with its weights in a cache."""
    quantized = workload.dtype == "int8"
    if workload.kind == "move":
        return workload.output_bytes / core.copy_bytes_per_cycle
    uncached = _uncached_values(workload, core) * core.cycles_per_value
    if workload.kind == "gemm":
        rate = core.gemm_int8 if quantized else core.gemm_float32
        return workload.macs * (1 + core.k_half / max(workload.inner_k, 1)) / rate + uncached
    if workload.kind == "depthwise":
        return workload.macs / (core.depthwise_int8 if quantized else core.depthwise_float32) + uncached
    rescaling = workload.rescaled * core.cycles_per_result
    cycles_per_element = host.element_cycles or ELEMENT_CYCLES[workload.dtype]
    return workload.elements * cycles_per_element + rescaling + uncached


def _uncached_values(workload: Workload, core: CpuCore) -> float:
    """Return the number of input and output values beyond the data cache; all count as wide as results."""
    beyond_bytes = workload.input_bytes + workload.output_bytes - core.data_cache_kib * 1024
    result_bytes = workload.output_bytes / workload.elements if workload.elements else 0
    return max(0, beyond_bytes) / max(VALUE_BYTES[workload.dtype], result_bytes)


def _dram_bytes(workload: Workload, core: CpuCore) -> int:
    activations = workload.input_bytes + workload.output_bytes
    return workload.weight_bytes + max(0, activations - core.last_level_kib * 1024)
