"""A Cortex-M7 without an NPU (preset `cortex-m7`: STM32H747, 400 MHz) against what its vendor measured.

Five constants of the core are fitted, all together, on two thirds of these networks and the four of MLPerf Tiny at
280 MHz (STM32H7A3). Networks are files of ../shared, built-in ones, and descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from math import fsum, inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.silicon import described
from benchmarks.silicon.described import Network, deployed
from benchmarks.silicon.ethos_u55 import network as file_of
from benchmarks.silicon.frame import Bar, Chip, Compared, Fit, Measurement
from npusim.isa.base.elements import Workload
from npusim.isa.hardware.cpu import CpuCore, core_time_us, cpu_core
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.hardware import Host

PRESET = "cortex-m7"
Numbers = NDArray[np.float64]


def _of_file(name: str) -> Network:
    """The work of a model file of ../shared, or of a built-in model. Raises `peers.Missing`."""
    import npusim
    from npusim.kernels.graph.graph import call_of
    from npusim.kernels.table import operator

    graph = npusim.load(name if name in ("mobilenet_v1", "mobilenet_v2") else str(file_of(name)))
    return [operator(node.op).workload(call_of(graph, node)) for node in graph.nodes]


def _image(network: Network, size: int, classes: int = 5, channels: int = 3) -> Network:
    return deployed(network, size * size * channels, classes)


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "fdmobilenet_0.25_128": lambda: _of_file("n6_fdmobilenet_0.25_128_c101"),
    "fdmobilenet_0.25_224": lambda: _of_file("n6_fdmobilenet_0.25_224_c101"),
    "mobilenet_v1_0.25_224": lambda: _of_file("n6_mobilenet_v1_0.25_224_c101"),
    "mobilenet_v1_0.25_96": lambda: _image(described.mobilenet_v1(0.25, 96, 5), 96),
    "mobilenet_v1_0.25_96_grey": lambda: _image(described.mobilenet_v1(0.25, 96, 5, 1), 96, channels=1),
    "mobilenet_v1_0.5_224": lambda: _image(described.mobilenet_v1(0.5, classes=5), 224),
    "mobilenet_v1_1.0_224": lambda: _of_file("mobilenet_v1"),
    "mobilenet_v2_0.35_128": lambda: _image(described.mobilenet_v2(0.35, 128, 5), 128),
    "mobilenet_v2_0.35_224": lambda: _image(described.mobilenet_v2(0.35, classes=5), 224),
    "mobilenet_v2_1.0_224": lambda: _of_file("mobilenet_v2"),
    "mobilenet_v2_1.4_224": lambda: _image(described.mobilenet_v2(1.4, classes=1000), 224, 1000),
    "resnet_v1_32_32": lambda: _image(described.resnet_32(), 32, 100),
    "resnet_v1_8_32": lambda: _image(described.resnet_8(), 32, 10),
    "squeezenet_v1.1_224": lambda: _of_file("n6_squeezenet_v1.1_224_c101"),
    "ssd_mobilenet_v2_fpnlite_035_256": lambda: _image(described.ssd_mobilenet_v2(256), 256, 0),
    "ssd_mobilenet_v2_fpnlite_035_416": lambda: _image(described.ssd_mobilenet_v2(416), 416, 0),
    "st_efficientnet_lc_v1_128": lambda: _image(described.st_efficientnet(128), 128),
    "st_efficientnet_lc_v1_224": lambda: _image(described.st_efficientnet(224), 224),
    "st_fdmobilenet_v1_128": lambda: _image(described.st_fdmobilenet(128), 128),
    "st_fdmobilenet_v1_224": lambda: _image(described.st_fdmobilenet(224), 224),
    "st_mnist_v1_28": lambda: _image(described.st_mnist(), 28, 36, 1),
    "st_yolo_lc_v1_192": lambda: _image(described.st_yolo(192), 192, 12 * 12 * 30),
    "st_yolo_lc_v1_224": lambda: _image(described.st_yolo(224), 224, 14 * 14 * 30),
    "st_yolo_lc_v1_256": lambda: _image(described.st_yolo(256), 256, 16 * 16 * 30),
}

FURTHER_MS = {
    "mobilenet_v1_0.25_96_grey": 28.34,
    "mobilenet_v1_0.5_224": 485.79,
    "resnet_v1_32_32": 177.7,
    "resnet_v1_8_32": 28.67,
    "st_efficientnet_lc_v1_224": 438.33,
    "st_fdmobilenet_v1_128": 32.66,
}
"""Rows of the same board and the same pages that the table does not have: STMicroelectronics/stm32ai-modelzoo,
image_classification/*/README.md.
"""

MLPERF_MS = {
    "mlperf_resnet8_int8": 40.8,
    "mlperf_vww96_int8": 23.8,
    "mlperf_kws_int8": 11.3,
    "mlperf_ad01_int8": 1.23,
}
"""STM32H7A3 at 280 MHz: mlcommons/tiny_results_v1.2, NUCLEO-H7A3ZI-Q."""

HELD_OUT = tuple(sorted(NETWORKS)[2::3])
"""Every third network in alphabetical order; none of them is in the fit."""


@cache
def work(name: str) -> tuple[Workload, ...]:
    """What the operators of a network ask. Raises `peers.Missing`."""
    return tuple(NETWORKS[name]() if name in NETWORKS else _of_file(name))


def rows() -> Iterator[Measurement]:
    """Milliseconds on the board. Raises `peers.Missing`."""
    table = peers.table("reference", "silicon.csv")
    of_board = [row for row in table if row["chip"] == "STM32H747I-DISCO"]
    measured_ms = {row["model"]: float(row["latency_ms"]) for row in of_board} | FURTHER_MS
    for name in sorted(NETWORKS):
        yield Measurement(name, Path(name), measured_ms[name], name in HELD_OUT)


def time_ms(name: str, core: CpuCore, host: Host) -> float:
    """A network on a core of those numbers. Raises `peers.Missing`."""
    return fsum([core_time_us(each, core, host) for each in work(name)]) * 1e-3


def simulated(row: Measurement) -> float:
    """Milliseconds on the core of the preset. Raises `peers.Missing`."""
    host = hardware(PRESET).host
    return time_ms(row.network, cpu_core(host.core), host)


class Equations(NamedTuple):
    """For each row: shares of the measured time that go with each constant as it is, their sum as it should be, and a
    weight.
    """

    shares: Numbers
    wanted: Numbers
    weights: Numbers

    def without(self, at: int) -> Equations:
        """All rows but one."""
        return Equations(*(np.delete(each, at, axis=0) for each in self))

    def solved(self) -> list[float]:
        """By how much each constant is to change: the least squares, none of them below 0."""
        kept = list(range(self.shares.shape[1]))
        while True:
            sides = self.shares[:, kept] * self.weights[:, None], self.wanted * self.weights
            factors, *_ = np.linalg.lstsq(*sides, rcond=None)
            if factors.min() > 0:
                return [float(factors[kept.index(at)]) if at in kept else 0.0 for at in range(len(KEYS))]
            del kept[int(factors.argmin())]


RATES = ("gemm_int8", "depthwise_int8")
COSTS = ("operator_us", "cycles_per_value", "cycles_per_result")
"""Constants that time falls with, and those that it grows with."""

KEYS = (*RATES, *COSTS)


def _equations() -> tuple[list[str], Equations]:
    """The rows of the fit, and for each the shares of the measured time that go with the constants, the share that is
    left for them, and how often it counts.
    """
    host = hardware(PRESET).host
    at_280 = host.model_copy(update={"clock_mhz": 280.0})
    asked = [(row.network, row.value, host, 1.0) for row in rows() if not row.held_out]
    asked += [(name, measured_ms, at_280, 4.0) for name, measured_ms in MLPERF_MS.items()]
    core = cpu_core(host.core)
    shares, rest = [], []
    for name, measured_ms, board, _ in asked:
        whole = time_ms(name, core, board)
        own = [time_ms(name, _changed(core, key, 2.0), board) - whole for key in KEYS]
        shares.append([each / measured_ms for each in own])
        rest.append(1 - (whole - sum(own)) / measured_ms)
    weights = np.sqrt([weight for *_, weight in asked])
    return [name for name, *_ in asked], Equations(np.array(shares), np.array(rest), weights)


def _changed(core: CpuCore, key: str, factor: float) -> CpuCore:
    """Return the core with the time that a constant stands for multiplied by `factor`."""
    return _with(core, {key: _scaled(core, key, factor)})


def _with(core: CpuCore, constants: Mapping[str, Any]) -> CpuCore:
    """Return the core with other values of some constants."""
    return replace(core, **constants)


def _scaled(core: CpuCore, key: str, factor: float) -> float:
    """Return a constant whose time is multiplied by `factor`; without any time a rate is infinite."""
    value: float = getattr(core, key)
    if key in COSTS:
        return value * factor
    return value / factor if factor else inf


def fits() -> Iterator[Fit]:
    """The least squares of the relative errors, and again without one network or another. Raises `peers.Missing`."""
    names, equations = _equations()
    core = cpu_core(hardware(PRESET).host.core)
    best = _constants(core, equations)
    apart = [_constants(core, equations.without(at)) for at in range(len(names))]
    for at, key in enumerate(KEYS):
        values = [each[at] for each in apart]
        yield Fit(key, getattr(core, key), len(names), best[at], min(values), max(values))


def predicted_apart() -> list[Compared]:
    """Each row of the fit by constants that were fitted without it. Raises `peers.Missing`."""
    names, equations = _equations()
    host = hardware(PRESET).host
    core = cpu_core(host.core)
    measured = {row.network: row for row in rows()}
    apart = []
    for at, name in enumerate(names):
        if name in measured:
            constants = dict(zip(KEYS, _constants(core, equations.without(at)), strict=True))
            apart.append(Compared(measured[name], time_ms(name, _with(core, constants), host)))
    return apart


def _constants(core: CpuCore, equations: Equations) -> list[float]:
    return [_scaled(core, key, factor) for key, factor in zip(KEYS, equations.solved(), strict=True)]


REMARKS = (
    "Sixteen networks and the four of MLPerf Tiny at 280 MHz (STM32H7A3) are in the fit, both boards with the same "
    "weight. If each of the sixteen is simulated with constants fitted without it, the error is 16.4 %, the worst "
    "55.1 %. The worst is EfficientNet-LC, the only network with many gates: without it no row determines the cost "
    "of results at another scale.",
    "The fit can hardly tell the depthwise rate from the cycles of values beyond the data cache: both costs grow "
    "with the size of feature maps.",
    "VWW takes 6.7 million cycles at 280 MHz with other tools. The same network (`mobilenet_v1_0.25_96`) takes 12.0 "
    "million at 400 MHz. One simulated core stands for both: 1.33 times the first, 0.80 times the second.",
    "The model reads weights once per operator. On the board, weights beyond the flash come from external memory, "
    "for a few pixels at a time. Tiny YOLO v2 (10.8 MB) takes 1.7 to 1.9 times what the preset says, MobileNets of "
    "4 MB up to 1.2 times.",
    "Rows without a model file are described from papers and public sources (`benchmarks/silicon/described.py`). "
    "Earlier constants had been fitted to eleven of the networks, some of which are held out now. They had not been "
    "fitted to the SSDs and EfficientNet-LC.",
)


CHIPS = (
    Chip(
        PRESET,
        "STM32 model zoo, STM32H747 at 400 MHz",
        "ms",
        Bar(0.20, 0.50, 0.97),
        rows,
        simulated,
        2,
        REMARKS,
        fits,
    ),
)
