"""STM32N6 against ST's model zoo, a neutral board, and single layers: latency, of all versions of the tool.

Networks are told to the simulator by files of the same layers (random weights) or by built-in models. The one row of a
board at 800 MHz is simulated at that clock. No constant comes from a network: two of the preset's come from the rows of
single layers, the bandwidth of the flash from pairs of networks that differ in their classifier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import fmean, median

from benchmarks import peers
from benchmarks.silicon.ethos_u55 import network
from benchmarks.silicon.frame import Bar, Chip, Fit, Measurement, timed_run

PRESET = "stm32n6"

NETWORKS = {
    "fdmobilenet_0.25_128 (food101)": "n6_fdmobilenet_0.25_128_c101",
    "fdmobilenet_0.25_224 (food101)": "n6_fdmobilenet_0.25_224_c101",
    "mobilenet_v1_0.25_224 (food101)": "n6_mobilenet_v1_0.25_224_c101",
    "mobilenet_v1_0.25_224 (imagenet)": "n6_mobilenet_v1_0.25_224_c1000",
    "mobilenet_v1_1.0_224 (imagenet)": "mobilenet_v1",
    "mobilenet_v2_1.0_224 (imagenet)": "mobilenet_v2",
    "squeezenet_v1.1_224 (food101)": "n6_squeezenet_v1.1_224_c101",
    "tflm person_detect": "tflm_person_detect_int8",
    "yamnet_256 (esc10)": "n6_yamnet_256_64x96_c10",
}
"""The file or the built-in model of a row."""

HELD_OUT = (
    "fdmobilenet_0.25_224 (food101)",
    "mobilenet_v1_1.0_224 (imagenet)",
    "squeezenet_v1.1_224 (food101)",
)
"""Every third of the networks in alphabetical order, from the second one."""

LAYERS = tuple(f"conv2d_{each}" for each in ("16f_3x3", "32f_3x3", "64f_3x3", "32f_5x5", "32f_7x7"))
"""Single convolutions of 64 x 64 x 3 with a global mean behind."""

BUILT_IN = ("mobilenet_v1", "mobilenet_v2")

Row = dict[str, str]


@cache
def _rows() -> tuple[Row, ...]:
    """All rows of the chip. Raises `peers.Missing`."""
    return tuple(row for row in peers.table("reference", "silicon.csv") if row["npu"] == "ST Neural-ART 14")


def _measured(row: Row, name: str, model: str, held_out: bool) -> Measurement:
    version = re.search(r"ST Edge AI Core ([\d.]+)", row["memory_config"])
    clock = "" if row["core_clock_mhz"] == "1000" else f", {row['core_clock_mhz']} MHz"
    file = Path(model) if model in BUILT_IN else network(model)
    said = f"{name}, tool {version[1]}{clock}" if version else f"{name}{clock}"
    settings = {"clock_mhz": float(row["core_clock_mhz"])} if clock else {}
    return Measurement(said, file, float(row["latency_ms"]), held_out, settings)


def networks() -> Iterator[Measurement]:
    """The networks whose layers are at hand. Raises `peers.Missing`."""
    for row in _rows():
        name = row["model"]
        if name in NETWORKS:
            yield _measured(row, name, NETWORKS[name], name in HELD_OUT)


def layers() -> Iterator[Measurement]:
    """The single layers. Raises `peers.Missing`."""
    for row in _rows():
        name = row["model"].removeprefix("micro ")
        if name in LAYERS:
            yield _measured(row, name, f"n6_micro_{name}", False)


@cache
def _latency(model: str, changes: tuple[tuple[str, int | float], ...]) -> float:
    from npusim.isa.hardware.file import change, hardware

    return timed_run(model, change(hardware(PRESET), dict(changes))).latency_ms


def simulated(row: Measurement) -> float:
    """Milliseconds of the preset, at the clock of the board."""
    return _latency(str(row.file), tuple(row.settings.items()))


ELEMENTS = 64 * 64
"""Of a channel of a single layer."""

EPOCHS = 2
"""Of a single layer: the convolution, and the mean."""


def _line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Slope and intercept of the least squares."""
    x, y = (fmean(each) for each in zip(*points, strict=True))
    slope = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return slope, y - slope * x


def _points() -> dict[str, list[tuple[float, float]]]:
    """(channels, cycles at 1 GHz) of the rows of 3 x 3 windows, by layer."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in layers():
        name = row.network.partition(",")[0]
        if name.endswith("_3x3"):
            channels = int(name.removeprefix("conv2d_").partition("f")[0])
            found.setdefault(name, []).append((channels, row.value * 1e6))
    return found


def _epoch(points: list[tuple[float, float]]) -> float:
    """Cycles of an epoch beside its elements."""
    return _line(points)[1] / EPOCHS


def _element(points: list[tuple[float, float]]) -> float:
    """Cycles of an output element, with its part in the mean."""
    return _line(points)[0] / ELEMENTS


def fits() -> Iterator[Fit]:
    """What 3 x 3 windows of 16, 32 and 64 channels say of the two constants. Raises `peers.Missing`."""
    from npusim.isa.hardware.file import hardware

    chip = hardware(PRESET)
    vector = chip.vector
    element = 1 / chip.mac_array.output_lanes + vector.reduce_cycles / vector.lanes
    yield _fit("front_end.layer_cycles", chip.front_end.layer_cycles, _epoch)
    yield _fit("1 / mac_array.output_lanes + vector.reduce_cycles / vector.lanes", element, _element)


def _fit(key: str, value: float, says: Callable[[list[tuple[float, float]]], float]) -> Fit:
    """A constant by a line through all rows, and through those of all layers but one."""
    points = _points()
    every = [point for found in points.values() for point in found]
    without = [says([p for name, found in points.items() if name != left for p in found]) for left in points]
    return Fit(key, value, len(every), says(every), min(without), max(without))


PAIRS = (
    (("mobilenet_v1_1.0_224 (imagenet)", "mobilenet_v1_1.0_224 (food101)"), "2.0.0"),
    (("mobilenet_v1_1.0_224 (imagenet)", "mobilenet_v1_1.0_224 (food101)"), "3.0.0"),
    (("mobilenet_v2_1.0_224 (imagenet)", "mobilenet_v2_1.0_224 (food101)"), "2.0.0"),
    (("mobilenet_v1_0.25_224 (imagenet)", "mobilenet_v1_0.25_224 (food101)"), "2.0.0"),
    (("mobilenet_v1_0.25_224 (imagenet)", "mobilenet_v1_0.25_224 (food101)"), "3.0.0"),
)
"""Networks that differ in their classifier only, and the version of the tool."""


def _flash_fit() -> Iterator[Fit]:
    """The bandwidth of the flash: bytes of weights by time, between the networks of a pair."""
    from npusim.isa.hardware.file import hardware

    flash = next(memory for memory in hardware(PRESET).memory if memory.name == "flash")
    rates = []
    for names, version in PAIRS:
        more, less = (
            next(row for row in _rows() if row["model"] == name and version in row["memory_config"])
            for name in names
        )
        rates.append((_weights(more) - _weights(less)) / (_time(more) - _time(less)) * 1e-6)
    apart = [median(rates[:at] + rates[at + 1 :]) for at in range(len(rates))]
    assert flash.bandwidth_gb_per_s is not None
    yield Fit(
        "memory.flash.bandwidth_gb_per_s",
        flash.bandwidth_gb_per_s,
        len(rates),
        median(rates),
        min(apart),
        max(apart),
    )


def _weights(row: Row) -> float:
    """Bytes in the flash."""
    found = re.search(r"weights ([\d.]+) KiB", row["memory_config"])
    assert found is not None
    return float(found[1]) * 1024


def _time(row: Row) -> float:
    return float(row["latency_ms"])


REMARKS = (
    "The measured numbers of all rows, including the held-out ones, are in a table that was known beforehand. No "
    "constant was chosen by a network. MobileNetV1 0.5 224 (7.38 ms) and MobileNetV2 0.35 224 (9.14 ms), found in "
    "another table afterwards, have the ratios 0.97 and 0.97. Some networks of the table have no file at hand and "
    "were built from their descriptions: YAMNet 1024 has the ratio 1.00, MobileNetV1 1.0 with 101 classes 0.97 and "
    "1.00, MobileNetV2 1.0 with 101 classes 0.86, MobileNetV2 1.4 0.83.",
    "Two versions of the tool differ by -16 to +3 % on the same network; no preset can match both.",
    "Version 2.0 of the tool pads depthwise kernels with zeros to 72 multipliers, and pads other kernels too. The "
    "chip therefore loads a quarter more weights than MobileNetV2 has, which takes a tenth of its time.",
    "In the model, loads of weights inside an epoch hide behind computation as far as the tiles allow. On the chip "
    "some of them seem not to. If none did, the ratio of MobileNetV2 and SqueezeNet would be 0.98, that of "
    "MobileNetV1 1.0 would be 1.2.",
    "The model uses one of four units for a layer, as measurements of single layers suggest. The vendor's compiler "
    "is known to spread 1 x 1 kernels over all four units, which then wait for streams of feature maps. Both give "
    "about 64 to 75 products a cycle.",
    "SqueezeNet, the worst row, has eight concatenations and three poolings. The model computes them as copies and "
    "streams.",
    "The model has one scratchpad at full speed. On the chip cpuRAM runs at 0.4 of the clock and npuRAM at 0.8. The "
    "cache before external memory is left out.",
    "Energy has no reference: the vendor's figures for its memories have no unit.",
)

LAYER_REMARKS = (
    "7 x 7 windows take four epochs on the chip, of which two are not modelled: 0.03 to 0.05 ms.",
    "A pooling after a convolution changes nothing on the chip (one more row, whose file is not at hand).",
)

CHIPS = (
    Chip(
        PRESET,
        "ST's model zoo and one neutral board, latency",
        "ms",
        Bar(0.15, 0.40, 0.97),
        networks,
        simulated,
        3,
        REMARKS,
        _flash_fit,
    ),
    Chip(
        PRESET,
        "single layers of stm32n6-edge-ai-benchmarks, latency",
        "ms",
        Bar(0.20, 0.50, 0.90),
        layers,
        simulated,
        3,
        LAYER_REMARKS,
        fits,
    ),
)
