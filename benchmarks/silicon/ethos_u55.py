"""Ethos-U55 in four sizes against Vela 5.2.0, and one network on Arm's fixed virtual platform.

The rows that count: Vela leaves the CPU nothing but QUANTIZE and DEQUANTIZE, the network takes 10,000 cycles or more,
and three quarters of them are operators that the engine and its output stage are described by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from benchmarks import peers
from benchmarks.silicon.fitted import fits
from benchmarks.silicon.frame import Bar, Chip, Measurement, timed_run
from benchmarks.silicon.vela_tables import layer_rows, network_rows

SIZES = (32, 64, 128, 256)

HELD_OUT = (
    "coral_tf2_mobilenet_v2_1.0_224_ptq",
    "mlperf_resnet8_int8",
    "n6_fdmobilenet_0.25_224_c101",
    "n6_squeezenet_v1.1_224_c101",
    "tflm_person_detect_int8",
)
"""Every third of the networks in alphabetical order, set aside before the first constant was chosen."""

REPEATED = ("tflm_person_detect_int8_patched",)
"""The same layers as another row."""

DESCRIBED = (
    *("Conv2D", "DepthwiseConv2D", "FullyConnected", "MaxPool", "AvgPool", "Add", "Sub", "Mul", "Minimum"),
    *("Maximum", "Quantize", "Softmax", "Concat"),
)
LEAST_CYCLES = 10_000
LEAST_SHARE = 0.75
OF_CPU = {"", "Quantize", "Dequantize"}

FVP_MOBILENET_V2 = 7_346_172
"""NPU cycles of MobileNetV2 1.0 224 uint8 on an Ethos-U55-128, Corstone-300 (ml-embedded-evaluation-kit)."""


@cache
def _described() -> Mapping[tuple[str, str], float]:
    """The share of the cycles of each network and accelerator that are in operators that are described."""
    spent: dict[tuple[str, str], int] = defaultdict(int)
    known: dict[tuple[str, str], int] = defaultdict(int)
    for row in layer_rows():
        key, cycles = (row["model"], row["accelerator"]), int(row["op_cycles"])
        spent[key] += cycles
        known[key] += cycles if row["operator"] in DESCRIBED else 0
    return {key: known[key] / (spent[key] or 1) for key in spent}


def vela_rows(size: int) -> Iterator[Measurement]:
    """The networks that count, with Vela's cycles for a size. Raises `peers.Missing`."""
    accelerator = f"ethos-u55-{size}"
    for row in network_rows():
        name, cycles = row["model"], int(row["total_cycles"])
        kinds = set(row["cpu_operator_kinds"].replace(";", ",").replace(" ", "").split(","))
        counts = row["accelerator"] == accelerator and cycles >= LEAST_CYCLES and kinds <= OF_CPU
        if not counts or name in REPEATED or _described()[name, accelerator] < LEAST_SHARE:
            continue
        yield Measurement(name, network(name), cycles, name in HELD_OUT)


def network(name: str) -> Path:
    """The file of a network of the tables. Raises `peers.Missing`."""
    for folder in ("models", "silicon_models"):
        file = peers.shared(folder, f"{name}.tflite", must=False)
        if file.is_file():
            return file
    raise peers.Missing(f"no {name}.tflite in ../shared")


def simulated(size: int, row: Measurement) -> float:
    """Cycles of the preset without those of the host, which Vela does not count."""
    result = timed_run(row.file, f"ethos-u55-{size}")
    host = sum([layer.cycles for layer in result.layers if layer.unit == "host"])
    return float(result.cycles - host)


def _fvp() -> Iterator[Measurement]:
    name = "coral_mobilenet_v2_1.0_224_quant"
    yield Measurement(name, network(name), FVP_MOBILENET_V2)


REMARKS = (
    "The closed form was derived from Vela's table of single operators, which also contains operators of the "
    "held-out networks. Fifty other networks, with Vela run live, are in [silicon_zoo.md](silicon_zoo.md).",
    "Concatenations whose channel numbers are no multiples of 16 are stored in plain rows. These pass the port more "
    "slowly than the bricks that the model counts.",
    "npusim packs weights with its own code, not Arm's. The packed size is within 10 % of Arm's if at most half of "
    "the weights are zero, and 1.4 times Arm's if nine of ten are.",
    "The simulated chip reads its commands from the flash. Vela does not count them: 2 % of the smallest networks.",
    "No register-level description of the hardware is public. `tests/rtl` has an engine of our own that takes the "
    "cycles of the closed form. Blocks at the edge of a map can differ from Vela's, whose array never waits for "
    "accumulators: 0.3 % of a typical layer.",
)

CHIPS = (
    *(
        Chip(
            f"ethos-u55-{size}",
            "Vela 5.2.0's estimates, Ethos_U55_High_End_Embedded, Shared_Sram",
            "cycles",
            Bar(0.10, 0.25, 0.95),
            partial(vela_rows, size),
            partial(simulated, size),
            seen="Vela's estimate",
            remarks=REMARKS,
            fits=partial(fits, f"ethos-u55-{size}"),
        )
        for size in SIZES
    ),
    Chip(
        "ethos-u55-128",
        "Arm's fixed virtual platform, Corstone-300",
        "cycles",
        Bar(0.05, 0.05, 1.0),
        _fvp,
        partial(simulated, 128),
        seen="virtual platform",
    ),
)
