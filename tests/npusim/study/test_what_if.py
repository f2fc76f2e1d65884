"""What a change of each hardware parameter would bring: every number against a run of its own."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameters, why_unread
from npusim.numbers.variants import Variant, WhatIf
from npusim.reports.run import html
from npusim.reports.run import what_if as table
from npusim.study import executors
from npusim.study import what_if as variants
from npusim.study.what_if import what_if

from ...command_line import command


@pytest.fixture(scope="module")
def found() -> WhatIf:
    return what_if("digits_cnn", "edge-128", jobs=1)


def by_change(found: WhatIf) -> dict[tuple[str, float | None], Variant]:
    return {(each.parameter, each.after): each for each in found.variants}


def test_every_number_has_a_factor_or_a_reason_for_none() -> None:
    without = {each.path for each in parameters() if not each.what_if}
    assert without == {
        "name", "description", "mac_array.dataflow", "mac_array.shadow_weights", "host.core", "technology.node_nm",
        "technology.rated_mhz", "technology.rated_v", "technology.vdd_v",
        "technology.dram", "scratchpad.holds", "mac_array.kind", "lacks_operators",
        "float32_rescale", "overlap",
        # A machine does so or does not.
        "dma.views", "dma.decoder_skips", "vector.fused_lookup", "mac_array.block.turns_rows",
        # What the array does with weights in blocks is a matter of its design.
        "mac_array.weight_blocks",
        # In which order a controller gives grants is a matter of its design.
        "dram.reorder_grants",
        # How often a unit passes over an int16 value is a matter of its design.
        "mac_array.int16_passes", "vector.int16_passes",
        # The bits come with the network; what the rest of a chip draws comes with the chip.
        "mac_array.weight_bits", "technology.system_pj_per_cycle",
        # What a byte or standing by takes comes with the memory.
        *(f"{table}.{price}" for table in ("scratchpad", "dram")
          for price in ("read_pj_per_byte", "write_pj_per_byte", "standby_mw")),
    }  # fmt: skip
    halved = {each.path for each in parameters() if 0.5 in each.what_if}
    assert {"scratchpad.size_kib", "dram.latency_ns", "vector.exp_cycles"} <= halved
    assert not {"mac_array.rows", "dram.bandwidth_gb_per_s", "clock_mhz"} & halved
    assert all(2.0 in each.what_if for each in parameters() if each.what_if)


@pytest.mark.slow
def test_all_of_them_are_tried(found: WhatIf) -> None:
    asked = sorted(
        (each.path, factor)
        for each in parameters()
        for factor in each.what_if
        if not why_unread(found.hardware, each.path)  # of other engine types, or of units that are not there
    )
    assert len(found.variants) == len(asked)
    assert {each.parameter for each in found.variants} == {path for path, _ in asked}


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("dram.bandwidth_gb_per_s", 1.0), ("mac_array.columns", 16), ("clock_mhz", 685.0), ("scratchpad.banks", 32),
        ("dram.latency_ns", 64.0), ("dram.latency_ns", 256.0), ("scratchpad.size_kib", 1024), ("vector.lanes", 16),
        ("mac_array.accumulator_kib", 8),
    ],
)  # fmt: skip
def test_a_variant_is_what_a_run_on_that_machine_gives(found: WhatIf, path: str, after: float) -> None:
    variant = by_change(found)[path, after]
    result = npusim.run("digits_cnn", change(found.hardware, {path: after}), timing_only=True)
    assert (variant.latency_ms, variant.energy_uj) == (result.latency_ms, float(result.energy_uj))
    assert variant.latency_percent == pytest.approx(100 * (result.latency_ms / found.latency_ms - 1))
    assert variant.energy_percent == pytest.approx(100 * (float(result.energy_uj) / found.energy_uj - 1))


def test_the_largest_gain_is_first_and_what_was_not_run_is_last(found: WhatIf) -> None:
    ran = [each for each in found.variants if not each.reason]
    gains = [each.latency_percent or 0.0 for each in ran]
    assert gains == sorted(gains)
    assert found.variants[: len(ran)] == tuple(ran)
    assert found.variants[0].parameter == "dram.bandwidth_gb_per_s"


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"vector.lut_cycles": 1}, "vector.lut_cycles", "1 cannot be halved"),
        ({"dma.decoder_bytes_per_cycle": 0}, "dma.decoder_bytes_per_cycle", "0 cannot be doubled"),
        ({"dma.channels": 4}, "dma.channels", "dma.channels: 8 is not a whole number from 1 to 4"),
        (
            {"scratchpad.size_kib": 6, "scratchpad.banks": 3, "scratchpad.port_bytes": 2048},
            "scratchpad.banks",
            "scratchpad.banks: 6 does not divide 6144 bytes into banks of whole 2048-byte words",
        ),
        ({"scratchpad.size_kib": 4}, "scratchpad.size_kib", "2 is too small for 128 multipliers, at least 4"),
    ],
)
def test_what_cannot_be_changed_alone_says_why(changes: dict[str, int], path: str, reason: str) -> None:
    machine = change(Hardware(name="odd"), changes)
    (parameter,) = (each for each in parameters() if each.path == path)
    tried = [variants._changed(machine, parameter, factor) for factor in parameter.what_if]
    assert any(isinstance(each, Variant) and reason in each.reason for each in tried)


def test_an_unset_value_has_no_double() -> None:
    (parameter,) = (each for each in parameters() if each.path == "host.clock_mhz")
    tried = variants._changed(Hardware(name="plain"), parameter, 2.0)
    assert tried == Variant("host.clock_mhz", None, None, reason="unset")


@pytest.mark.slow
def test_processes_find_the_same(found: WhatIf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "LEAST_PARALLEL_S", 0.0)
    steps: list[tuple[int, int]] = []
    parallel = what_if("digits_cnn", jobs=2, progress=lambda done, total: steps.append((done, total)))
    assert parallel == found
    assert steps[-1][0] == steps[-1][1] == len(steps)


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_only_time(found: WhatIf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "LEAST_PARALLEL_S", 0.0)
    start = executors._Worker._start
    killed: list[int] = []

    def start_and_kill_the_first(worker: executors._Worker) -> Popen[bytes]:
        process = start(worker)
        if not killed:
            killed.append(process.pid)
            process.kill()
        return process

    monkeypatch.setattr(executors._Worker, "_start", start_and_kill_the_first)
    assert what_if("digits_cnn", jobs=2) == found
    assert killed


@pytest.mark.slow
def test_a_program_runs_as_it_is_on_what_keeps_it_valid(found: WhatIf) -> None:
    program = npusim.compile(npusim.load("digits_cnn"), "edge-128")
    as_it_is = what_if(program, jobs=1)
    assert not as_it_is.compiled
    assert as_it_is.latency_ms == found.latency_ms
    timing = by_change(as_it_is)["dram.latency_ns", 64.0]
    assert timing.latency_percent == pytest.approx(by_change(found)["dram.latency_ns", 64.0].latency_percent)
    halved = by_change(as_it_is)["scratchpad.size_kib", 1024]
    assert "outside the 1048576 bytes of scratchpad" in halved.reason
    assert "as it is" in table.render(as_it_is)


@pytest.mark.slow
def test_results_can_be_asked(found: WhatIf) -> None:
    result = npusim.run("digits_cnn", timing_only=True)
    assert result.what_if(jobs=1).variants == found.variants
    alone = npusim.simulate(result.program, timing_only=True).what_if(jobs=1)
    assert not alone.compiled


def test_a_model_file_that_became_another_is_refused(tmp_path: Path) -> None:
    from npusim import models

    path = tmp_path / "model.tflite"
    path.write_bytes(models.path_or_bytes("digits_cnn"))
    result = npusim.run(path, timing_only=True)
    path.write_bytes(models.path_or_bytes("ds_cnn"))
    with pytest.raises(NpusimError, match="is another model than the one that this result is of"):
        result.what_if()
    path.unlink()
    with pytest.raises(NpusimError, match="no such file"):
        result.what_if()


def test_the_hardware_of_a_program_is_its_own() -> None:
    program = npusim.compile(npusim.load("digits_cnn"), "edge-128")
    with pytest.raises(NpusimError, match='is compiled for "edge-128"; leave the hardware out'):
        what_if(program, "edge-64")


@pytest.mark.slow
def test_the_command(found: WhatIf, tmp_path: Path) -> None:
    numbers = tmp_path / "r.json"
    done = command("run", "digits_cnn", "--timing-only", "--what-if", "--json", numbers)
    assert (done.status, done.err) == (0, "")
    assert "What if, one parameter at a time" in done.out
    plain = json.loads(numbers.read_text())
    assert plain["what_if"] == json.loads(json.dumps(found.to_list()))
    assert set(plain["what_if"][0]) >= {
        "parameter",
        "before",
        "after",
        "latency_percent",
        "energy_percent",
        "reason",
    }


def test_without_the_option_nothing_is_tried(tmp_path: Path) -> None:
    assert command("run", "digits_cnn", "--timing-only", "--json", tmp_path / "r.json").status == 0
    assert "what_if" not in json.loads((tmp_path / "r.json").read_text())


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_table_fits(found: WhatIf, width: int) -> None:
    text = table.render(found, width)
    assert max(map(len, text.splitlines())) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert "not run: " in text


def test_each_parameter_stands_once(found: WhatIf) -> None:
    groups = found.by_parameter()
    assert len({each.path for each in groups}) == len(groups)
    assert sum(len(each.ran) for each in groups) == sum(not each.reason for each in found.variants)
    words = (
        table.render(found, 200).partition(table.GROUPS[True])[2].replace(",", " ").replace(":", " ").split()
    )
    assert [path for path in {each.parameter for each in found.variants} if words.count(path) != 1] == []


def test_both_directions_of_a_parameter_stand_together(found: WhatIf) -> None:
    (latency,) = (each for each in found.by_parameter() if each.path == "dram.latency_ns")
    assert [each.after for each in latency.ran] == [64.0, 256.0]
    lines = table.render(found, 200).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("  dram.latency_ns"))
    assert lines[first].split()[1:3] == ["128", "64"]
    assert lines[first + 1].split()[0] == "256"


@pytest.mark.slow
def test_of_blocks_what_an_array_of_blocks_has() -> None:
    found = what_if("digits_cnn", "ethos-u55-128", jobs=1)
    by_path = {(each.parameter, each.after): each for each in found.variants}
    faster = by_path["mac_array.block.output_cycles", 0.25].latency_percent
    assert faster is not None
    assert faster < 0


def test_what_an_architect_may_choose_comes_first() -> None:
    given = {each.path for each in parameters() if not each.chosen}
    assert given == {
        "front_end.decode_cycles", "dma.setup_cycles", "dram.latency_ns", "dram.row_bytes", "dram.row_miss_ns",
        "dram.banks", "dram.reorder_grants",
        "dram.burst_bytes", "dram.size_mib", "vector.startup_cycles", "host.threads", "host.clock_mhz",
        "host.call_overhead_us", "host.handover_us", "host.element_cycles", "mac_array.block.lone_step_cycles",
        "mac_array.block.access_cycles", "mac_array.bit_serial.start_cycles", "mac_array.bit_serial.step_cycles",
        "mac_array.bit_serial.point_start_cycles", "mac_array.bit_serial.output_cycles", "front_end.layer_cycles",
        "front_end.inference_cycles",
    }  # fmt: skip
    assert not Variant("dram.latency_ns", 1.0, 0.5).chosen
    assert Variant("mac_array.rows", 1, 2).to_dict()["chosen"] is True


def _found(*variants: Variant) -> WhatIf:
    return WhatIf("m", Hardware(name="h"), True, 1.0, 1.0, 2.0, variants)


def test_the_first_advice_can_be_built_and_has_a_price() -> None:
    """Half the latency of the DRAM gains most, and nobody can order it."""
    wish = Variant("dram.latency_ns", 100.0, 50.0, 0.5, 1.0, 2.0, -50.0, 0.0, 0.0)
    wide = Variant("mac_array.columns", 8, 16, 0.8, 1.0, 2.5, -20.0, 0.0, 25.0, percent_per_mm2=40.0)
    ports = Variant("scratchpad.bank_ports", 2, 4, 0.9, 1.0, 2.0, -10.0, 0.0, 0.0)
    said = table.advice(_found(wish, wide, ports))
    assert said == "mac_array.columns 8 to 16 takes 20.0 % off the latency for 0.5 mm2 more, 40 % per mm2."
    assert table.advice(_found(wish, ports)).endswith("takes 10.0 % off the latency for no area.")
    assert table.advice(_found(wish)) == "No single choice makes it faster."
    assert [table.per_mm2(each) for each in (wish, wide, ports)] == ["-", "40 %", "free"]
    text = table.render(_found(wish, wide, ports))
    assert text.index("mac_array.columns  ") < text.index("dram.latency_ns  ")


def test_percent_per_mm2_is_that_of_the_variant(found: WhatIf) -> None:
    best = by_change(found)["dram.bandwidth_gb_per_s", 1.0]
    assert best.area_mm2 is not None
    assert best.latency_percent is not None
    assert best.percent_per_mm2 == pytest.approx(-best.latency_percent / (best.area_mm2 - found.area_mm2))
    assert by_change(found)["dram.latency_ns", 64.0].percent_per_mm2 is None


@pytest.mark.slow
def test_the_page_says_what_would_help(found: WhatIf) -> None:
    result = npusim.run("digits_cnn", timing_only=True)
    assert "What would help" not in html.render(result)
    page = html.render(replace(result, variants=found)).replace("\xa0", " ")
    assert page.index('id="cycles"') < page.index('id="help"') < page.index('id="layers"')
    section = page[page.index('id="help"') : page.index('id="layers"')]
    assert "dram.bandwidth_gb_per_s 0.5 to 1 takes" in section
    assert section.index("What an architect may choose") < section.index("What comes with the DRAM")
    for each in found.by_parameter():
        assert section.count(f"<code>{each.path}</code>") <= 1


def test_as_a_table_and_a_value(found: WhatIf) -> None:
    assert pickle.loads(pickle.dumps(found)) == found
    import pandas

    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(found.variants)
