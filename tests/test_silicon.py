"""Presets beside chips: the numbers by which they are judged, and that they keep their bars."""

from __future__ import annotations

import csv
import re
import tomllib
from itertools import takewhile
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

import npusim
from benchmarks import peers
from benchmarks.silicon import cortex_m7, data, described, ethos_u55, gap9, plot, rockchip, stm32n6
from benchmarks.silicon.chips import CHIPS
from benchmarks.silicon.frame import (
    Agreement,
    Bar,
    Chip,
    Compared,
    Measurement,
    agreement,
    compared,
    spearman,
)
from benchmarks.silicon.page import held_out, page
from benchmarks.silicon.run import PAGE, PICTURE
from benchmarks.silicon.zoo import others, vision
from benchmarks.silicon.zoo.page import zoo_page
from benchmarks.silicon.zoo.zoo import APART, SEEN, Network, built, measured
from npusim import simulate
from npusim.cli.typer_app import app
from npusim.frontends.transformer.published import BY_NAME
from npusim.frontends.transformer.weights import parse
from npusim.isa.hardware import agreement as agreement_file
from npusim.isa.hardware.agreement import agreements, percent
from npusim.isa.hardware.cpu import cpu_time_us
from npusim.isa.hardware.file import change, hardware, list_presets
from npusim.scheduler import compile_graph

from .graphs import Sketch


def rows(*pairs: tuple[float, float]) -> list[Compared]:
    return [
        Compared(Measurement(f"n{at}", Path(f"n{at}"), *pair[:1]), pair[1]) for at, pair in enumerate(pairs)
    ]


def test_agreement_by_hand() -> None:
    """Twice and half of what was measured are both twice off, and have no bias."""
    found = agreement(rows((100, 200), (100, 50), (50, 50), (10, 10)))
    assert found.error == pytest.approx(2**0.5 - 1)
    assert (found.worst, found.bias) == (pytest.approx(1.0), pytest.approx(1.0))
    assert found.rows == 4


def test_rows_of_one_file_share_a_rank() -> None:
    """Three networks in order; the first was measured twice, on either side of the second, which it is ahead of."""
    file, others = Path("a"), [(12.0, 20.0), (100.0, 90.0)]
    twice = [Compared(Measurement(name, file, value), 10.0) for name, value in (("old", 9.0), ("new", 13.0))]
    assert agreement([*twice, *rows(*others)]).rank == pytest.approx(1.0)
    assert agreement([*twice, *rows(*others)]).rows == 4


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([1, 2, 3], [10, 20, 40], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        # Ranks 0, 1, 2, 3 and 1, 0, 2, 3: 1 - 6 x 2 / (4 x 15).
        ([1, 2, 3, 4], [6, 5, 7, 8], 0.8),
        # Equal ones share ranks 0 and 1.
        ([1, 1, 2], [1, 1, 2], 1.0),
        ([1, 2], [1, 2], None),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_rank_correlation(first: list[float], second: list[float], wanted: float | None) -> None:
    found = spearman(first, second)
    assert found == (None if wanted is None else pytest.approx(wanted))


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (Agreement(3, 0.1, 0.25, 1.0, 0.95), True),
        (Agreement(3, 0.11, 0.25, 1.0, 0.95), False),
        (Agreement(3, 0.1, 0.26, 1.0, 0.95), False),
        (Agreement(3, 0.1, 0.25, 1.0, 0.94), False),
        (Agreement(1, 0.1, 0.25, 1.0, None), True),
    ],
)
def test_a_bar(found: Agreement, holds: bool) -> None:
    assert found.holds(Bar(0.1, 0.25, 0.95)) is holds


def test_the_page_has_every_row() -> None:
    chip = Chip(
        "edge-32", "a referee", "ms", Bar(0.1, 0.2, 0.9), lambda: iter(()), lambda row: 0.0, 2, ("So.",)
    )
    text = page([(chip, rows((1.0, 1.1), (2.0, 1.0)))])
    assert "| n0 | 1.00 | 1.10 | 1.100 |  |" in text
    assert "| n1 | 2.00 | 1.00 | 0.500 |  |" in text
    assert "\n- So.\n" in text


WRITE_AGAIN = "run `python -m benchmarks silicon --write`"


def test_the_file_of_the_product_says_what_the_page_says() -> None:
    """Row by row of the table at the top of docs/silicon.md, in its order: two files, written at once."""
    lines = PAGE.read_text().splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("| preset "))
    table = [line.strip("| ").split(" | ") for line in takewhile(lambda line: line, lines[head + 2 :])]
    said = [[cell.strip("` ") for cell in row][:9] for row in table]
    known = [
        [
            each.preset, each.referee, str(each.rows), percent(each.error), percent(each.worst),
            f"{each.bias:.3f}", "" if each.rank is None else f"{each.rank:.3f}",
            *([percent(each.held_out.error), percent(each.held_out.worst)] if each.held_out else ["", ""]),
        ]
        for each in agreements()
    ]  # fmt: skip
    assert said == known, WRITE_AGAIN
    assert [(chip.preset, chip.referee, chip.quantity) for chip in CHIPS] == [
        (each.preset, each.referee, each.quantity) for each in agreements()
    ], WRITE_AGAIN


def test_presets_are_those_that_were_judged() -> None:
    """Whoever changes a key of a chip judges it again. A key that is new, with its default, changes nothing."""
    written = tomllib.loads(agreement_file.FILE.read_text())["presets"]
    assert written == {name: data.digest(name) for name in written}, WRITE_AGAIN
    assert set(written) == {chip.preset for chip in CHIPS} & set(list_presets())


FAST_ROWS = {
    "ethos-u55-128": "mlperf_kws_int8",
    "gap9": "mlperf_ad01_int8",
    "stm32n6": "fdmobilenet_0.25_128 (food101), tool 2.0.0",
}
"""Of each of these presets a row that takes a second at most."""


@pytest.mark.parametrize("preset", sorted({chip.preset for chip in CHIPS} & set(FAST_ROWS)))
def test_the_page_is_what_the_presets_give(preset: str, shared: Path) -> None:
    """One row of a chip, simulated again, is the row of the page within a hundredth."""
    assert shared
    chip = next(chip for chip in CHIPS if chip.preset == preset)
    row = next(row for row in chip.measurements() if row.network == FAST_ROWS[preset])
    section = PAGE.read_text().split(f"## {preset}: {chip.referee}\n")[1]
    line = next(line for line in section.splitlines() if line.startswith(f"| {row.network} |"))
    said = float(line.split(" | ")[2].replace(",", ""))
    assert chip.simulate(row) == pytest.approx(said, rel=0.01), WRITE_AGAIN


def test_the_data_of_rows_by_hand() -> None:
    """Two rows, both twice off: one was simulated with 6 bits, the other as the preset stands, with 8."""
    chip = Chip("gap9", 'a "board", once', "ms", Bar(0.1, 0.2, 0.9), lambda: iter(()), lambda row: 0.0)
    file = Path()
    two = [
        Compared(Measurement("a", file, 1.0, False, {"mac_array.weight_bits": 6}), 2.0),
        Compared(Measurement("b", file, 4.0, True), 2.0),
    ]
    text = data.text([(chip, two)])
    assert tomllib.loads(text)["agreement"] == [
        {
            "preset": "gap9", "quantity": "latency", "referee": 'a "board", once',
            "rows": 2, "error": 1.0, "worst": 1.0, "bias": 1.0,
            "settings": {"mac_array.weight_bits": [6, 8]},
            "held_out": {"rows": 1, "error": 1.0, "worst": 1.0},
        }
    ]  # fmt: skip
    assert list(tomllib.loads(text)["presets"]) == ["gap9"]


def test_the_host_may_be_judged_too() -> None:
    """A core is no preset; its rows are in the file all the same."""
    chip = Chip("cortex-a53", "a board", "ms", Bar(0.1, 0.2, 0.9), lambda: iter(()), lambda row: 0.0)
    found = tomllib.loads(data.text([(chip, rows((1.0, 2.0)))]))
    assert found["agreement"][0]["preset"] == "cortex-a53"
    assert found["presets"] == {}


@pytest.mark.slow
def test_the_figure_has_a_panel_for_each_preset_and_quantity() -> None:
    """Referees of one preset share a panel; rows that were held out are drawn in another colour."""
    chips = [
        Chip(name, "a", unit, Bar(0.1, 0.2, 0.9), lambda: iter(()), lambda row: 0.0)
        for name, unit in (("edge-32", "ms"), ("edge-64", "uJ"), ("edge-32", "cycles"))
    ]
    apart = [Compared(Measurement("n", Path(), 1.0, True), 1.5)]
    results = [(chips[0], rows((1, 1.1), (20, 19))), (chips[1], apart), (chips[2], rows((3, 3)))]
    assert [len(panel) for panel in plot.panels(results)] == [2, 1]
    picture = plot.svg(results)
    assert picture == plot.svg(results)
    titles = re.findall(r">(edge-\S+?(?:, energy)?)</text>", picture)
    assert titles == ["edge-32", "edge-64, energy"]
    # A marker above and one below for each row, and one in the legend.
    assert picture.count(f"stroke: {plot.ASIDE}; stroke-width: 1.1") >= 2
    assert len(picture) < 60_000


def test_the_page_shows_its_figure() -> None:
    assert f"]({PICTURE.name})" in PAGE.read_text()
    titles = re.findall(
        r"font: 700 [^>]*>([^<]*)</text>|font-weight: 700;[^>]*>([^<]*)</text>", PICTURE.read_text()
    )
    known = dict.fromkeys((each.preset, each.quantity) for each in agreements())
    assert [one or other for one, other in titles] == [
        name if quantity == "latency" else f"{name}, {quantity}" for name, quantity in known
    ], WRITE_AGAIN


def test_chips_are_presets() -> None:
    assert {chip.preset for chip in CHIPS} <= set(list_presets())


def test_every_third_network_was_held_out(shared: Path) -> None:
    assert shared
    every = {row.network for size in ethos_u55.SIZES for row in ethos_u55.vela_rows(size)}
    single = {name for name in every if name.startswith("n6_micro")}
    networks = sorted(every - single)
    assert networks[2::3] == sorted(ethos_u55.HELD_OUT)


def _of(chip: Chip) -> str:
    return f"{chip.preset}, {chip.referee}"


@pytest.mark.parametrize("chip", [each for each in CHIPS if each not in rockchip.LANGUAGE_MODELS], ids=_of)
def test_presets_keep_their_bars(chip: Chip, shared: Path) -> None:
    """Those that were tuned on, and those that were held out."""
    assert shared
    _keeps_its_bar(chip)


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("preset", rockchip.PRESETS)
def test_language_models_keep_their_bars(preset: str, shared: Path) -> None:
    """All rows of a chip, and those that were held out; the leave-one-out of the constants is what the page says."""
    assert shared
    for chip in rockchip.LANGUAGE_MODELS:
        if chip.preset == preset:
            _keeps_its_bar(chip)
            for fit in chip.fits():
                assert fit.value == pytest.approx(fit.median, rel=0.1), fit.key
    for parts in (rockchip.token_parts, rockchip.first_token_parts):
        apart = agreement(rockchip.predicted_apart(parts(preset)))
        assert apart.error <= rockchip.MOST_APART[parts.__name__]


@pytest.mark.parametrize("preset", rockchip.PRESETS)
def test_every_row_of_language_models_is_there(preset: str, shared: Path) -> None:
    """A third of the models was drawn before any row was looked at; the RK3576 has no row of Qwen2.5."""
    assert shared
    assert sorted(rockchip.HELD_OUT) == ["ChatGLM3 6B", "Qwen2 0.5B"]
    every = set(rockchip.MODELS) - ({"Qwen2.5 1.5B"} if preset == "rk3576" else set())
    tokens, prompts = list(rockchip.token_rows(preset)), list(rockchip.first_token_rows(preset))
    assert {row.network for row in tokens} == every
    assert {row.network for row in prompts} == every - {rockchip.LARGE}
    assert {row.network for row in tokens if row.held_out} == set(rockchip.HELD_OUT)
    assert {row.network for row in prompts if row.held_out} == {"Qwen2 0.5B"}
    names = {row.network: row.held_out for row in rockchip.network_rows(preset)}
    assert names == {"mobilenetv2-12": False, "resnet50-v2-7": True}


@pytest.mark.parametrize("stored", ["w4a16", "w4a16_g128"])
def test_every_row_with_4_bits_is_there(stored: str, shared: Path) -> None:
    """The RK3576 alone has such rows, of the same models as with 8 bits, and the same ones are held out."""
    assert shared
    for rows in (rockchip.token_rows, rockchip.first_token_rows):
        with_4, with_8 = list(rows("rk3576", stored)), list(rows("rk3576"))
        assert [(row.network, row.held_out) for row in with_4] == [
            (row.network, row.held_out) for row in with_8
        ]
        assert all(row.value > 0 for row in with_4)
        assert not list(rows("rk3588", stored))
    weights, activations = rockchip.STORED[stored]
    config = BY_NAME["qwen2_0.5b"].config.stored_as(parse(weights), activations)
    assert (config.weights.bits, config.weights.block, config.floats) == (
        4,
        128 * stored.endswith("g128"),
        True,
    )
    assert [chip.preset for chip in CHIPS if chip.referee.endswith(f", {stored}")] == ["rk3576"] * 2


def test_the_network_that_was_held_out_is_in_the_draw(shared: Path) -> None:
    with (shared / "reference" / "rknn_cnn.csv").open(newline="") as file:
        names = sorted({row["model"] for row in csv.DictReader(line for line in file if line[0] != "#")})
    drawn = Random(26).sample(names, round(len(names) / 3))
    assert [name for name in rockchip.NETWORKS if name in drawn] == [rockchip.HELD_OUT_NETWORK]


def test_constants_by_least_squares() -> None:
    """Rows whose times are twice the DRAM's and half of the handovers' ask for these factors, with any one left out."""
    parts = [
        rockchip.Parts(
            Measurement(f"m{at}", Path(), 1 + 2 * dram + 0.5 * calls), 1 + dram + calls, (dram, calls)
        )
        for at, (dram, calls) in enumerate([(10.0, 2.0), (30.0, 4.0), (20.0, 8.0)])
    ]
    assert rockchip.solved(parts) == pytest.approx([2.0, 0.5])
    assert agreement(rockchip.predicted_apart(parts)).worst == pytest.approx(0.0, abs=1e-9)


def _keeps_its_bar(chip: Chip) -> None:
    found = compared(chip)
    assert agreement(found).holds(chip.bar)
    apart = held_out(found)
    assert apart is None or apart.holds(chip.bar)


def test_every_row_of_gap9_has_its_bits(shared: Path) -> None:
    """KWS, whose row nobody had looked at before the constants, is there and is apart."""
    assert shared
    for preset in gap9.SYSTEMS:
        found = list(gap9.rows(preset, gap9.LATENCY))
        assert {row.network for row in found} == set(gap9.BITS)
        assert [row.network for row in found if row.held_out] == ["mlperf_kws_int8"]
    fast, slow = (
        min(row.value for row in gap9.rows(preset, gap9.LATENCY)) for preset in ("gap9", "gap9-low")
    )
    assert slow / fast == pytest.approx(370 / 240, rel=0.01)


def test_a_single_layer_of_the_stm32n6_by_hand() -> None:
    """An element a cycle, then the mean: 64 x 64 sums and a division by 32 channels at a time, behind 8 cycles.

    Measured: 0.086 to 0.087 ms. What is left is the fetch of commands and kernels, which does not hide.
    """
    sketch = Sketch("one", seed=1)
    maps = sketch.conv(sketch.input(1, 64, 64, 3), 16, padding=((1, 1), (1, 1)))
    sketch.mean(maps, (1, 2))
    chip = hardware("stm32n6")
    found = simulate(compile_graph(sketch.graph(), chip), timing_only=True)
    epochs, elements, mean = 2 * 9_250, 64 * 64 * 16, 8 + 64 * 64 * 1 + chip.vector.requantise_cycles
    assert [layer.unit for layer in found.layers] == ["mac", "vector"]
    assert 0 < found.cycles - (epochs + elements + mean) < 0.04 * found.cycles
    assert found.latency_ms == pytest.approx(0.0865, rel=0.06)


def test_every_third_network_of_the_stm32n6_was_held_out(shared: Path) -> None:
    assert shared
    every = sorted(stm32n6.NETWORKS, key=lambda name: name.removeprefix("tflm "))
    assert every[1::3] == [name for name in every if name in stm32n6.HELD_OUT]
    found = list(stm32n6.networks())
    assert {row.network.partition(",")[0] for row in found} == set(stm32n6.NETWORKS)
    assert len(found) == 13  # some of them by two versions of the tool
    assert [row.network for row in found if row.network.endswith("MHz")] == [
        "tflm person_detect, tool 4.0.0, 800 MHz"
    ]


def test_constants_of_the_stm32n6_are_those_of_single_layers(shared: Path) -> None:
    """Each lies between what the rows say without any one of them."""
    assert shared
    for chip in stm32n6.CHIPS:
        for fit in chip.fits():
            assert fit.least * 0.99 <= fit.value <= fit.most * 1.01, fit.key


def test_the_others_say_that_they_are_idealised() -> None:
    for name in list_presets():
        if name not in {chip.preset for chip in CHIPS}:
            assert hardware(name).description.startswith("idealised array, always full: ")


def test_every_row_of_the_cortex_m7_is_there(shared: Path) -> None:
    """But for two detectors whose sources were not turned into a description."""
    assert shared
    with shared.joinpath("reference", "silicon.csv").open(newline="") as file:
        named = {row["model"] for row in csv.DictReader(file) if row["npu"].startswith("Cortex-M7")}
    left = {f"st_ssd_mobilenet_v1_025_{size}" for size in (224, 256)}
    assert named - left == set(cortex_m7.NETWORKS) - set(cortex_m7.FURTHER_MS)
    assert sum(row.held_out for row in cortex_m7.rows()) == len(cortex_m7.NETWORKS) // 3


def test_constants_of_the_cortex_m7_are_what_its_fit_says(shared: Path) -> None:
    """Rounded; the error of each network by constants that were fitted without it keeps the bar, too."""
    assert shared
    for fit in cortex_m7.fits():
        assert fit.value == pytest.approx(fit.median, rel=0.01), fit.key
        assert fit.least < fit.value < fit.most
    (chip,) = cortex_m7.CHIPS
    apart = agreement(cortex_m7.predicted_apart())
    assert apart.error < chip.bar.error
    assert (
        f"without it, the error is {percent(apart.error)}, the worst {percent(apart.worst)}."
        in chip.remarks[0]
    )


def test_a_network_on_the_cortex_m7_takes_what_performance_info_divides_by(shared: Path) -> None:
    """Three ways to the same time: the preset, the ratio of an NPU with that host, and the sum over operators."""
    name = "n6_fdmobilenet_0.25_128_c101"
    file = shared / "silicon_models" / f"{name}.tflite"
    alone = npusim.run(file, hw="cortex-m7", timing_only=True)
    assert {layer.unit for layer in alone.layers} == {"host", "none"}
    chip = change(hardware("edge-128"), {"host.clock_mhz": 400})
    beside = npusim.run(file, hw=chip, timing_only=True)
    by_ratio_us = (beside.latency_ms * 1e3 + chip.host.call_overhead_us) / beside.performance_info.execTime
    of_operators_us = sum(cpu_time_us(each, chip.host) for each in cortex_m7.work("fdmobilenet_0.25_128"))
    assert by_ratio_us == pytest.approx(of_operators_us, rel=1e-6)
    assert alone.latency_ms * 1e3 == pytest.approx(of_operators_us, rel=1e-3)


def test_a_description_stands_in_for_its_file(shared: Path) -> None:
    """MobileNet v1 0.25 for 101 classes, of which there are both; a file has operators of shapes, too."""
    assert shared
    core = hardware("cortex-m7").host
    by_file = sum(cpu_time_us(each, core) for each in cortex_m7.work("mobilenet_v1_0.25_224"))
    network = described.deployed(described.mobilenet_v1(0.25, classes=101), 224 * 224 * 3, 101)
    assert sum(cpu_time_us(each, core) for each in network) == pytest.approx(by_file, rel=0.01)


@pytest.mark.parametrize("size", ethos_u55.SIZES)
@pytest.mark.parametrize("name", ["ds_cnn", "mobilenet_v1"])
def test_networks_that_nobody_tuned_on(name: str, size: int, tmp_path: Path) -> None:
    """Built-in networks, written as TFLite files, with Vela run live: within 5 %."""
    try:
        peers.require_vela()
    except peers.Missing as reason:
        pytest.skip(str(reason))
    file = tmp_path / f"{name}.tflite"
    assert CliRunner().invoke(app, ["convert", name, "-o", str(file)]).exit_code == 0
    measured = peers.vela_cycles(file, f"ethos-u55-{size}")
    ratio = ethos_u55.simulated(size, Measurement(name, file, measured)) / measured
    assert 0.95 < ratio < 1.05


@pytest.mark.parametrize("size", ethos_u55.SIZES)
@pytest.mark.parametrize(
    "network",
    [vision.mobilenet_v3, vision.shufflenet_v2, others.deeplab],
    ids=lambda network: network.__name__,
)
def test_networks_of_the_zoo(network: Network, size: int, tmp_path: Path) -> None:
    """Look-ups on the way, parts of tensors in place, filled kernels, with Vela run live: within 12 %."""
    file = built(network, tmp_path)
    try:
        row = measured(network, file, size)
    except peers.Missing as reason:
        pytest.skip(str(reason))
    assert row is not None
    assert 0.88 < ethos_u55.simulated(size, row) / row.value < 1.12


def test_every_network_of_the_zoo_is_read(tmp_path: Path) -> None:
    """All are read and compiled as they are written, and have names of their own."""
    networks = (*SEEN, *APART)
    assert len({network.__name__ for network in networks}) == len(networks) >= 40
    for network in networks[::9]:
        assert npusim.run(str(built(network, tmp_path)), hw="ethos-u55-64", timing_only=True).cycles > 0


def test_the_page_of_the_zoo() -> None:
    seen, apart = SEEN[0].__name__, APART[0].__name__
    measurements = [
        Measurement(seen, Path(seen), 100.0),
        Measurement(apart, Path(apart), 50.0, held_out=True),
    ]
    text = zoo_page({32: [Compared(measurements[0], 110.0), Compared(measurements[1], 50.0)]})
    assert "| `ethos-u55-32` | 2 | 4.9 % | 10.0 % | 1.049 |  | 1 | 0.0 % | 0.0 % |" in text
    assert f"| {seen} | 100 | 1.100 |  |" in text
    assert f"| {apart} | 50 | 1.000 | apart |" in text
    assert f"| {SEEN[1].__name__} |  |  |  |" in text
