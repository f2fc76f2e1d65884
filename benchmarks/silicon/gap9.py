"""GAP9 with its NE16 at two voltages against MLPerf Tiny v1.0: latency and energy of the whole chip.

The submitter quantised the weights of each network to fewer bits than eight, which the preset is told as
`mac_array.weight_bits`. Two constants are fitted on AD, ResNet-8 and VWW together; KWS was looked at after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from statistics import median

from benchmarks import peers
from benchmarks.silicon.ethos_u55 import network
from benchmarks.silicon.frame import Bar, Chip, Fit, Measurement, timed_run
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.voltage import supply_v
from npusim.numbers.run import RunResult

SYSTEMS = {"gap9": "gap9_800_370", "gap9-low": "gap9_650_240"}
"""What the results call the chip of a preset."""

NETWORKS = {
    "ad": ("mlperf_ad01_int8", 6),
    "ic": ("mlperf_resnet8_int8", 7),
    "kws": ("mlperf_kws_int8", 5),
    "vww": ("mlperf_vww96_int8", 5),
}
"""The file of a task and the bits of its weights (W_BITS of the submission)."""

BITS = dict(NETWORKS.values())
HELD_OUT = "kws"

LATENCY, ENERGY = "latency_ms", "energy_uJ"
"""Columns of the results."""


def rows(preset: str, what: str) -> Iterator[Measurement]:
    """The four networks. Raises `peers.Missing`."""
    table = peers.table("reference", "mlperf_tiny_results.csv")
    results = [row for row in table if SYSTEMS[preset] in row.values()]
    for row in results:
        task = next(task for task in NETWORKS if task in row.values())
        name, bits = NETWORKS[task]
        yield Measurement(
            name, network(name), float(row[what]), task == HELD_OUT, {"mac_array.weight_bits": bits}
        )


@cache
def _run(preset: str, name: str, key: str | None = None) -> RunResult:
    """A network on a preset, or on the preset with 0 for a key."""
    changes: dict[str, int | float] = {"mac_array.weight_bits": BITS[name]}
    chip = change(hardware(preset), changes if key is None else changes | {key: 0})
    return timed_run(network(name), chip)


def latency(result: RunResult) -> float:
    """In milliseconds."""
    return float(result.latency_ms)


def energy(result: RunResult) -> float:
    """In microjoules."""
    return float(result.energy_uj)


Value = Callable[[RunResult], float]


def _simulated(preset: str, value: Value, row: Measurement) -> float:
    return value(_run(preset, row.network))


def fit(preset: str, what: str, value: Value, key: str) -> Iterator[Fit]:
    """A constant that the value is linear in: what each row says of it. Raises `peers.Missing`."""
    table, _, field = key.partition(".")
    constant = getattr(getattr(hardware(preset), table), field)
    said = []
    for row in rows(preset, what):
        if not row.held_out:
            without = value(_run(preset, row.network, key))
            said.append((row.value - without) / (value(_run(preset, row.network)) - without) * constant)
    apart = [median(said[:at] + said[at + 1 :]) for at in range(len(said))]
    yield Fit(key, constant, len(said), median(said), min(apart), max(apart))


REMARKS = {
    LATENCY: (
        "`front_end.layer_cycles` is the median that AD, ResNet-8 and VWW ask for, with those loads of weights that "
        "do not hide behind computation. The value 3,050, which the cycles of the NE16 alone would leave, makes the "
        "three 2 to 10 % slower. KWS, which was held out, asks for more than either.",
        "A weight occupies a byte of the simulated scratchpad whatever `weight_bits` is, so tiles are smaller than "
        "on the chip.",
        "Kernels other than 1 x 1 and 3 x 3 run on the cores at 10 MACs per cycle, an assumption. They take a fifth "
        "of the time of KWS.",
        "The steps of the engine are those of the published model of the NE16. ResNet-8 agrees with that model to "
        "the cycle in the cost of a bit of a weight (14,512). `tests/rtl` has an engine of our own in registers "
        "that takes the same cycles.",
    ),
    ENERGY: (
        "`technology.system_pj_per_cycle` is one constant for four networks and two voltages. It stands for cores "
        "that wait, tile or compute. Their energy differs between the networks: single rows ask for 84 to 142 pJ.",
    ),
}


def _chip(
    preset: str, what: str, unit: tuple[str, str], value: Value, key: str, bar: Bar, decimals: int
) -> Chip:
    volts = supply_v(hardware(preset))
    return Chip(
        preset,
        f"MLPerf Tiny v1.0, {unit[1]} at {volts:.2f} V",
        unit[0],
        bar,
        partial(rows, preset, what),
        partial(_simulated, preset, value),
        decimals,
        REMARKS[what],
        partial(fit, preset, what, value, key),
    )


CHIPS = tuple(
    chip
    for preset in SYSTEMS
    for chip in (
        _chip(preset, LATENCY, ("ms", "latency"), latency, "front_end.layer_cycles", Bar(0.12, 0.20, 1.0), 4),
        _chip(
            preset,
            ENERGY,
            ("uJ", "energy"),
            energy,
            "technology.system_pj_per_cycle",
            Bar(0.30, 0.50, 1.0),
            2,
        ),
    )
)
