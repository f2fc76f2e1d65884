"""The error of latency and energy wherever they are a headline: terminal, pages, tables, notebook, `npusim hw`."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.comparison.comparison import compare
from npusim.isa.hardware import agreement
from npusim.isa.hardware.agreement import Agreement, HeldOut, Standing, standing
from npusim.isa.hardware.file import change, hardware
from npusim.numbers.performance import Capabilities
from npusim.numbers.run import RunResult
from npusim.reports.comparison import page as comparison_page
from npusim.reports.comparison import terminal as comparison_terminal
from npusim.reports.notebook import notebook
from npusim.reports.run import capabilities, html, run_table, terminal
from npusim.reports.study import page as study_page
from npusim.reports.study.columns import claims as claims_of_study
from npusim.reports.study.terminal import summary as study_summary
from npusim.reports.words import claims
from npusim.session.run_table import run_table as runs_of
from npusim.study.evaluate import Workload
from npusim.study.executors import executor
from npusim.study.explore import explore
from npusim.study.space_file import Sampling, from_values
from npusim.study.study import Study

CHIP, BOTH, GENERIC = "ethos-u55-128", "gap9", "edge-128"
UNKNOWN = "never measured, error not known"
IDEALISED = "idealised array, error not known"


def words(name: str, quantity: str = "latency") -> str:
    """What a preset says of one of its numbers."""
    return standing(hardware(name)).words("latency" if quantity == "latency" else "energy")


def both(name: str) -> str:
    return claims.of_standing(standing(hardware(name)))


@pytest.fixture(scope="module")
def runs() -> dict[str, RunResult]:
    found = {name: npusim.run("digits_cnn", name, timing_only=True) for name in (CHIP, BOTH, GENERIC)}
    return {name: run for name, run in found.items() if isinstance(run, RunResult)}


def said(arguments: list[str]) -> str:
    """What a command prints."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def flat(text: str) -> str:
    """A page without its markup, or a table, with one space between words."""
    return " ".join(unescape(text).replace("\u202f", " ").split())


@pytest.mark.slow
@pytest.mark.parametrize("name", [CHIP, BOTH, GENERIC])
def test_the_summary_says_it_below_both_numbers(runs: dict[str, RunResult], name: str) -> None:
    lines = terminal.render(runs[name], 110).splitlines()
    latency = next(at for at, line in enumerate(lines) if line.startswith("  Latency"))
    assert [lines[latency + 1].strip(), lines[latency + 3].strip()] == [words(name), words(name, "energy")]
    assert lines[latency + 2].startswith("  Energy")


def test_the_words_of_the_three_kinds() -> None:
    """As they stand in the terminal today; the numbers are those of docs/silicon.md."""
    assert words(CHIP).startswith("typical error ")
    assert words(CHIP).endswith(" rows of Vela 5.2.0's estimates)")
    assert words(CHIP, "energy") == UNKNOWN
    assert words(BOTH, "energy").endswith("(4 rows of MLPerf Tiny v1.0)")
    assert both(GENERIC) == IDEALISED
    assert both(CHIP) == f"latency: {words(CHIP)}; energy: {UNKNOWN}"


def test_the_page_of_a_run(runs: dict[str, RunResult]) -> None:
    chip, generic = (flat(html.render(runs[name])) for name in (CHIP, GENERIC))
    assert f'<p class="claim">Latency: {words(CHIP)}; energy: {UNKNOWN}.</p>' in chip
    found = standing(hardware(CHIP))
    assert "Agreement with measurements and estimates" in chip
    for each in found.agreements:
        assert f'{each.referee}</th><td>{each.quantity}</td><td class="n">{each.rows}</td>' in chip
    assert f"<br>{runs[CHIP].uncertainty.short('latency')}</dd>" in chip
    assert '<p class="claim">Idealised array, error not known.</p>' in generic
    assert "Agreement with measurements and estimates" not in generic
    assert "edge-128 is an idealised array" in generic


def test_the_page_of_a_changed_preset_claims_nothing() -> None:
    run = npusim.run("digits_cnn", change(hardware(CHIP), {"dma.channels": 1}), timing_only=True)
    assert isinstance(run, RunResult)
    text = flat(html.render(run))
    assert f'<p class="claim">Based on {CHIP}, 1 key changed: error not known.</p>' in text
    assert "Agreement with measurements and estimates" not in text
    assert "Changed: dma.channels." in text


def test_a_notebook(runs: dict[str, RunResult]) -> None:
    text = flat(notebook.result(runs[CHIP]))
    assert f"cycles; {words(CHIP)}<" in text
    assert f"with DRAM and host; {UNKNOWN}<" in text


def test_a_comparison(runs: dict[str, RunResult]) -> None:
    found = compare(*runs.values())
    lines = comparison_terminal.render(found, width=110).splitlines()
    at = lines.index("Error")
    shown = flat(" ".join(lines[at + 1 : lines.index("", at)]))
    assert shown == f"A {both(CHIP)} B {both(BOTH)} C {IDEALISED}"
    page = flat(comparison_page.render(found))
    assert f"Error of A: {both(CHIP)}." in page
    assert f"Error of C: {IDEALISED}." in page
    plain = found.to_dict()["runs"]
    assert plain[0]["agreement"]["latency"]["words"] == words(CHIP)


def test_runs_of_one_machine_share_a_line(runs: dict[str, RunResult]) -> None:
    text = comparison_terminal.render(compare(runs[GENERIC], runs[GENERIC]))
    assert f"Error\n  A, B  {IDEALISED}\n" in "\n".join(line.rstrip() for line in text.splitlines())


def test_files_of_earlier_versions_state_no_error(runs: dict[str, RunResult]) -> None:
    old = runs[CHIP].to_dict()
    for key in ("agreement", "latency_error", "energy_error"):
        del old[key]
    assert "\nError\n" not in comparison_terminal.render(compare(old, old))
    assert "Error of" not in comparison_page.render(compare(old, old))


def test_words_of_a_result_file_are_not_believed(runs: dict[str, RunResult], tmp_path: Path) -> None:
    values = runs[CHIP].to_dict()
    values["agreement"]["latency"]["words"] = "\x1b[2Jexact"
    assert "\x1b" not in comparison_terminal.render(compare(values, values))
    values["agreement"]["latency"] = {"words": 3}
    file = tmp_path / "r.json"
    file.write_text(json.dumps(values))
    done = CliRunner().invoke(app, ["compare", str(file), str(file)])
    assert done.exit_code == 2
    assert "agreement.latency.words: 3" in done.output


def test_a_table_of_runs() -> None:
    table = runs_of(["digits_cnn", "ds_cnn"], [hardware(CHIP), hardware(GENERIC)])
    text = run_table.text(table, 200)
    assert text.endswith(f"\n\n{CHIP}: {both(CHIP)}\n{GENERIC}: {IDEALISED}")
    page = flat(run_table.render(table))
    assert f"{CHIP}: {both(CHIP)}." in page
    head, *rows = run_table.to_csv(table).splitlines()
    claim = standing(hardware(CHIP)).claim("latency")
    assert claim is not None
    at = head.split(",").index("latency_error")
    assert [row.split(",")[at] for row in rows] == [f"{claim.error}", "", f"{claim.error}", ""]


def test_runs_that_differ_have_a_line_each(runs: dict[str, RunResult]) -> None:
    table = runs_of(["digits_cnn", "ds_cnn"], [hardware(CHIP)])
    unlike = dict(table.runs[1].values or {})
    unlike["agreement"] = {"latency": {"words": "no"}, "energy": {"words": "no"}}
    other = table.runs[1].__class__("ds_cnn", CHIP, unlike)
    changed = table.__class__(table.models, table.machines, (table.runs[0], other))
    assert run_table.claims(changed) == [(f"digits_cnn on {CHIP}", both(CHIP)), (f"ds_cnn on {CHIP}", "no")]


def study(folder: Path, base: str, parameters: dict[str, Any], **tables: Any) -> Study:
    file = from_values({"extends": base, "parameters": parameters, **tables}, Path("space.toml"))
    model = Workload("digits_cnn", npusim.load("digits_cnn"), 1.0)
    grid = Sampling(kind="grid")
    return explore([model], file.space, grid, folder, make_executor=lambda job: executor(job, 1))


@pytest.mark.parametrize(
    ("base", "parameters", "wanted"),
    [
        (
            GENERIC,
            {"vector.lanes": [8, 16]},
            f"{GENERIC} is an idealised array: the error of its points is not known.",
        ),
        (
            BOTH,
            {"dma.channels": [1, 2]},
            f"Error of {BOTH}: {both(BOTH)}. That of points which change its keys is not known.",
        ),
        (
            BOTH,
            {"mac_array.weight_bits": [5, 6, 7]},
            f"Error of every point: {both(BOTH)}. Results do not change with mac_array.weight_bits: what fewer bits "
            "cost in accuracy is not known.",
        ),
    ],
    ids=["idealised", "changed", "covered"],
)
def test_a_study(base: str, parameters: dict[str, Any], wanted: str, tmp_path: Path) -> None:
    """Its points change keys: they have the error of the base only where rows varied in nothing else."""
    found = study(tmp_path / "study", base, parameters)
    assert claims_of_study(found) == wanted
    assert wanted in study_summary(found)
    assert f'<p class="claim">{wanted}</p>' in flat(study_page.render(found))
    assert wanted in flat(notebook.study(found))


def test_a_derived_parameter_is_a_change(tmp_path: Path) -> None:
    bits, derived = {"mac_array.weight_bits": [5, 6]}, {"vector.lanes": "mac_array.weight_bits"}
    assert claims_of_study(study(tmp_path / "study", BOTH, bits, derived=derived)).startswith(
        f"Error of {BOTH}:"
    )


def test_performance_info_says_it_of_its_nearer_side() -> None:
    """Rows are networks of 8 bits: nothing is said of reals, which the host computes."""
    chip = hardware(CHIP)
    found = Capabilities(
        CHIP, MappingProxyType({}), standing(chip), chip.host.model_copy(update={"core": "none"})
    )
    assert capabilities.side(found) == f"NPU's side of 8 bits: {both(CHIP)}"


def test_the_cpu_of_performance_info_has_the_error_of_its_preset(
    runs: dict[str, RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preset that is called like the core, with its clock: here one that is made up, for the name of another."""
    of = Agreement("edge-128", "latency", "a board", 24, 0.109, 0.27, 1.0)
    monkeypatch.setattr(agreement, "agreements", lambda preset: (of,) * (preset == of.preset))
    chip = hardware(GENERIC)
    named = chip.model_copy(update={"host": chip.host.model_copy(update={"core": "edge-128"})})
    said = "CPU model at 500 MHz: 10.9 % off, at worst 27.0 %"
    assert claims.of_cpu(named.host) == said
    assert claims.of_cpu(chip.host.model_copy(update={"core": "cortex-a53"})) == ""
    found = Capabilities(GENERIC, MappingProxyType({}), standing(chip), named.host)
    assert capabilities.side(found).endswith(f". {said}")
    monkeypatch.setattr(claims, "of_cpu", lambda host: said)
    lines = terminal.render(runs[GENERIC], 110).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("  execTime"))
    assert lines[at + 1].strip() == said
    assert f"<br>{said}</dd>" in flat(html.render(runs[GENERIC]))


def test_hw_list_has_a_column_for_each() -> None:
    lines = {line.split()[0]: line for line in said(["hw", "list"]).splitlines()}
    assert lines["preset"].split("  ")[-1].strip() == "energy error"
    assert "  latency error  " in lines["preset"]
    for name in (CHIP, BOTH):
        found = [standing(hardware(name)).claim(quantity) for quantity in ("latency", "energy")]
        estimate = " (Vela's estimate)" if name == CHIP else ""
        columns = [f"{100 * each.error:.1f} %{estimate}" if each else "not known" for each in found]
        assert lines[name].split(" nm ")[1].split() == " ".join(columns).split()
    assert lines[GENERIC].endswith("  idealised array")


def test_hw_show_of_a_chip() -> None:
    lines = said(["hw", "show", CHIP]).splitlines()
    found = standing(hardware(CHIP)).agreements
    assert lines[0] == f"# {CHIP} agrees with"
    assert lines[1 : 1 + len(found)] == [f"# - {claims.details(each)}" for each in found]
    assert lines[1 + len(found) : 5 + len(found)] == [
        f"# Energy: {UNKNOWN}.",
        "# docs/silicon.md has the rows. Of a machine with another key no error is known.",
        "",
        f'name = "{CHIP}"',
    ]


def test_hw_show_of_others(tmp_path: Path) -> None:
    assert said(["hw", "show", GENERIC]).splitlines()[:2] == [
        f"# {GENERIC} is an idealised array, always full, and named after no chip: error not known.",
        "# Chips of its size are slower, see docs/silicon.md.",
    ]
    file = tmp_path / "mine.toml"
    file.write_text(f'extends = "{CHIP}"\nclock_mhz = 400.0\n[vector]\nlanes = 16\n')
    assert said(["hw", "show", str(file)]).splitlines()[:2] == [
        f"# Based on {CHIP}, 2 keys changed: error not known.",
        "# Changed: clock_mhz, vector.lanes.",
    ]


def test_what_hw_show_prints_is_a_hardware_file(tmp_path: Path) -> None:
    file = tmp_path / "shown.toml"
    file.write_text(said(["hw", "show", BOTH]))
    assert hardware(file) == hardware(BOTH)


def test_details_by_hand() -> None:
    aside = HeldOut(5, 0.041, 0.071)
    settings = {"a.b": (5, 7), "c": (8, 8)}
    found = Agreement("x", "energy", "a board", 15, 0.0271, 0.0712, 1.022, 0.9996, aside, settings)
    assert claims.details(found) == (
        "15 rows of a board, energy: typical error 2.7 %, worst 7.1 %, bias 1.022, rank 1.000; "
        "5 of them held out: typical error 4.1 %, worst 7.1 %; rows with a.b from 5 to 7, c 8"
    )
    assert claims.in_columns(Standing("x", (), (found,))) == ("not known", "2.7 %")
