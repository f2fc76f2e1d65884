"""Figures: each is drawn for every kind of run, says what it shows, and is saved without a display."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import pytest

from npusim.isa.hardware.units import Unit
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.reports.run import figures, series
from npusim.reports.run.series import Charts

from ..npusim.numbers.fake_run import STEPS, Step, execution, program


@pytest.fixture(scope="module")
def result() -> RunResult:
    return measure(program(), execution())


@pytest.mark.parametrize("name", figures.FIGURES)
def test_figures_name_model_and_hardware(name: str, result: RunResult) -> None:
    figure = figures.FIGURES[name](result)
    assert "tiny on bench" in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_has_the_width_and_the_title_of_a_paper(name: str, result: RunResult) -> None:
    figure = figures.FIGURES[name](result, width_inches=3.4, title="Ours")
    assert figure.get_figwidth() == 3.4
    assert figure.axes[0].get_title(loc="left") == "Ours"
    assert figure.get_figheight() == figures.FIGURES[name](result).get_figheight()


@pytest.mark.slow
@pytest.mark.cases(4)
@pytest.mark.parametrize("kind", figures.FORMATS)
@pytest.mark.parametrize("name", figures.FIGURES)
def test_equal_runs_give_equal_files(name: str, kind: str, result: RunResult) -> None:
    files = []
    for _ in range(2):
        file = BytesIO()
        with figures.styled():
            figure = figures.FIGURES[name](result)
            figure.savefig(file, format=kind, metadata=figures.metadata(kind, {"model": "tiny"}))
        files.append(file.getvalue())
    assert files[0] == files[1]
    assert files[0].startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[kind])
    assert kind == "png" or b"tiny" in files[0]


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_run_without_work_has_figures(name: str) -> None:
    empty = execution(steps=(), layer_actions=({},))
    nothing = replace(program((), ()), buffers=())
    figure = figures.FIGURES[name](measure(nothing, replace(empty, trace=replace(empty.trace, transfers=()))))
    figure.savefig(BytesIO())


def test_mathematical_signs_in_names_are_text(result: RunResult) -> None:
    named = replace(result, program=replace(result.program, name=r"$\frac{"))
    figures.roofline(named).savefig(BytesIO())


def test_roofline_holds_the_layers_of_the_array(result: RunResult) -> None:
    roof = Charts(result).roofline
    assert [(point.index, point.layer.name) for point in roof.points] == [(0, "conv")]
    # 6400 MACs, 320 bytes; 110 of the 200 cycles are the convolution's.
    assert roof.points[0].macs_per_byte == 20
    assert roof.points[0].macs_per_cycle == pytest.approx(6400 / result.layers[0].cycles)
    assert (roof.peak_macs_per_cycle, roof.bytes_per_cycle, roof.ridge_macs_per_byte) == (128, 16, 8)


def test_stalls_fill_the_cycles_in_which_nothing_computes(result: RunResult) -> None:
    stalls = Charts(result).stalls
    moves = 15  # the copy of the concatenation is its work
    assert int((stalls.end - stalls.begin).sum()) == result.cycles.stall - moves
    assert (stalls.begin[1:] >= stalls.end[:-1]).all()


def test_work_is_the_instructions(result: RunResult) -> None:
    work = series.work(result)
    assert work.mnemonics()[:2] == ["dma.copy", "mac.convolve"]
    assert (int(work.begin[1]), int(work.end[1])) == (40, 100)


def test_much_work_is_merged_where_no_chart_would_show_it() -> None:
    steps = [Step(Unit.DMA0, 0, 0, 40), Step(Unit.DMA0, 0, 45, 60), Step(Unit.DMA0, 0, 110, 120), STEPS[1]]
    result = measure(program(steps=steps), execution(steps=steps))
    assert len(series.work(result, most=4).begin) == 4
    merged = series.work(result, most=3)  # gaps up to 120 / 3 cycles
    assert merged.begin.tolist() == [0, 110, 40]
    assert merged.end.tolist() == [60, 120, 100]
    assert merged.number.tolist() == [2, 1, 1]
