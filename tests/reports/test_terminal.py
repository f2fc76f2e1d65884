"""The summary in the terminal: what it says, that it fits, and that names from files cannot spoil it."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from npusim.numbers.causes import CAUSES
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult, WallTimes
from npusim.reports.run import terminal
from npusim.reports.words import quantities

from ..npusim.numbers.fake_run import CONVOLUTION, LAYERS, SORT, STEPS, execution, program


@pytest.fixture(scope="module")
def result() -> RunResult:
    return measure(program(), execution(), WallTimes(0.1, 0.2, 0.3))


SAID = [
    "tiny on bench",
    "128 MACs/cycle at 500 MHz, scratchpad 2 MiB, DRAM 8 GB/s, 28 nm",
    "Latency             400 ns  200 cycles; 2 500 000 inferences/s",
    "MAC utilization     25.0 %  32 of 128 MACs/cycle; 6.4 k MACs",
    "20.0 % of the latency, set by the host",
    "28 nm; 0.128 TOPS at most, 0.032 reached",
    "sort [bold]",
    "PerformanceInfo: time, NPU / cortex-m7",
    "stalled          40.0 %",
    "320 B read, 32 B written, and instructions",
    "Instructions         576 B  fetched",
    "Scratchpad peak      3 KiB  of 2 MiB",
    "Hottest layers, 4 of 5",
    "lower bound, host          40    20.0 %",
    "start-up                   40    20.0 %",
    "total                     200",
    "0 conv        conv_2d          100 50.0 % MAC 60%     edge tiles 31 %",
    "1 relu        relu              20 10.0 % vector 100% vector overhead 40 %",
    "2 concat      concatenation     20 10.0 % DMA 75%     data moves 75 %",
    "On the host, 1 of 5 layers",
    "30.0 %  arg_max, sort [bold]: axis is not the last",
    "Took load 0.10 s, compile 0.20 s, simulate 0.30 s.",
]


@pytest.mark.parametrize("words", SAID)
def test_summary_says(result: RunResult, words: str) -> None:
    assert words in terminal.render(result)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_summary_fits(result: RunResult, width: int) -> None:
    lines = terminal.render(result, width).splitlines()
    assert max(len(line) for line in lines) <= width
    assert any("Latency" in line and "400" in line for line in lines)


def test_summary_in_ascii(result: RunResult) -> None:
    file = StringIO()
    Console(file=file, width=80).print(terminal.summary(result, 80, ascii_only=True))
    assert file.getvalue().isascii()
    assert "####" in file.getvalue()


def test_a_wide_summary_says_how_busy_the_array_is(result: RunResult) -> None:
    row = "0 conv        conv_2d          100 200 ns 50.0 %    50.0 % MAC 60%     edge tiles 31 %"
    assert row in terminal.render(result, 100)


def test_a_very_wide_summary_says_how_layers_are_cut(result: RunResult) -> None:
    layer = replace(CONVOLUTION, output_shapes=((1, 1, 2, 8),), kernel=(1, 1), stride=(1, 1))
    text = terminal.render(measure(program((layer, *LAYERS[1:])), execution()), 160)
    assert "output  kernel stride tile  dataflow" in text
    assert "1x1x2x8 1x1    1x1    1x2x8 OS" in text


@pytest.mark.parametrize(("most", "last_row"), [(8, "output stage"), (3, "6 other causes")])
def test_where_the_cycles_went_adds_up(
    result: RunResult, most: int, last_row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "MOST_CAUSES", most)
    lines = terminal.render(result).splitlines()
    first = lines.index("Where the cycles went") + 1
    last = next(i for i, line in enumerate(lines) if line.startswith("  total"))
    assert sum(int(line[22:33].replace(" ", "")) for line in lines[first:last]) == 200
    assert last_row in lines[last - 1]


def test_every_cause_has_words() -> None:
    assert set(terminal.CAUSE_NAMES) == set(CAUSES)
    assert max(len(words) for words in terminal.CAUSE_NAMES.values()) <= 22


def test_timing_only_is_said() -> None:
    text = terminal.render(measure(program(), execution(None)))
    assert "Timing only: no data was executed." in text
    assert "Took" not in text


def test_a_model_that_runs_on_the_host_alone_is_said() -> None:
    steps = (STEPS[6]._replace(layer=0),)
    text = terminal.render(measure(program((SORT,), steps), execution(steps=steps, layer_actions=[{}, {}])))
    assert "On the host, 1 of 1 layer: nothing of this model runs on the NPU" in text


def test_equal_host_layers_share_a_row() -> None:
    layers = (SORT, replace(SORT, name="second"), replace(SORT, name="third"))
    steps = tuple(STEPS[6]._replace(layer=i, started=10 * i, ended=10 * i + 10) for i in range(3))
    text = terminal.render(measure(program(layers, steps), execution(steps=steps, layer_actions=[{}] * 4)))
    assert "100.0 %  arg_max, 3 layers: axis is not the last" in text


def test_names_from_files_move_no_cursor() -> None:
    evil = replace(CONVOLUTION, name="\x1b[2J\x1b[31m[red]boo\nline\u202e")
    run = measure(program((evil, *LAYERS[1:])), execution())
    text = terminal.render(run, 160)
    assert "[red]boo\\nline\\u202e" in text
    assert "\x1b" not in text


NUMBERS = [
    (quantities.time(1.5), "1.5 ms"),
    (quantities.time(0.0004), "400 ns"),
    (quantities.time(1000), "1 s"),
    (quantities.time(0), "0 ms"),
    (quantities.time(0.99999), "1 ms"),
    (quantities.energy(12_345), "12.35 mJ"),
    (quantities.energy(0), "0 uJ"),
    (quantities.power(0.5), "500 uW"),
    (quantities.count(300_774_272), "300.8 M"),
    (quantities.count(999), "999"),
    (quantities.size(2048), "2 KiB"),
    (quantities.size(1), "1 B"),
    (quantities.whole(7_346_172), "7 346 172"),
    (quantities.percent(0.3214), "32.1 %"),
    (quantities.ratio(0.0123456), "0.0123"),
    (quantities.ratio(1.00002), "1.000020"),
    (quantities.ratio(1.0), "1"),
    (quantities.digits(29_607.4), "29 607"),
    (quantities.shortened("network/block_3/conv", 12), "...ck_3/conv"),
    (quantities.plural(1, "layer"), "1 layer"),
    (quantities.plural(1200, "layer"), "1 200 layers"),
]


@pytest.mark.parametrize(("shown", "expected"), NUMBERS, ids=[row[1] for row in NUMBERS])
def test_quantities(shown: str, expected: str) -> None:
    assert shown == expected
