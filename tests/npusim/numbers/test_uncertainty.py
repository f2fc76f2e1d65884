"""What may be said of the error of a run, and when nothing may."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import npusim
from npusim.isa.base.tensor import SIZE_ONLY
from npusim.isa.hardware.agreement import standing
from npusim.isa.hardware.file import change, hardware
from npusim.isa.program.program import Program
from npusim.numbers.provenance import MOST_HOST_SHARE, uncertainty
from npusim.numbers.run import RunResult
from npusim.session.api import save_program

CHIP, BOTH = "ethos-u55-128", "gap9"


def run(hw: object, **options: object) -> RunResult:
    result = npusim.run("digits_cnn", hw=hw, timing_only=True, **options)
    assert isinstance(result, RunResult)
    return result


def test_a_run_has_the_error_of_its_preset() -> None:
    result, claims = run(BOTH), standing(hardware(BOTH))
    latency, energy = claims.claim("latency"), claims.claim("energy")
    assert latency is not None
    assert energy is not None
    assert (result.latency_error, result.energy_error) == (latency.error, energy.error)
    plain = result.to_dict()
    assert (plain["latency_error"], plain["energy_error"]) == (latency.error, energy.error)
    assert plain["agreement"]["latency"]["worst"] == latency.worst
    assert plain["agreement"]["energy"]["words"] == energy.words


def test_energy_that_nobody_measured_has_no_error() -> None:
    result = run(CHIP)
    assert result.latency_error is not None
    assert result.energy_error is None
    assert result.uncertainty.short("latency") == f"typical error {100 * result.latency_error:.1f} %"
    assert result.uncertainty.short("energy") == "error not known"


def test_a_run_on_a_generic_preset_is_idealised() -> None:
    result = run("edge-128")
    assert (result.latency_error, result.energy_error) == (None, None)
    assert result.uncertainty.short("latency") == "idealised array"
    assert result.to_dict()["agreement"]["idealised"] is True


def test_a_run_on_a_changed_preset_has_none() -> None:
    result = run(change(hardware(CHIP), {"vector.lanes": 16}))
    assert result.latency_error is None
    assert result.to_dict()["agreement"]["latency"] == {
        "words": f"based on {CHIP}, 1 key changed: error not known"
    }


@pytest.mark.parametrize(("share", "claims"), [(0.0, True), (MOST_HOST_SHARE, True), (0.11, False)])
def test_a_run_that_waits_for_its_host_is_not_like_the_rows(share: float, claims: bool) -> None:
    found = uncertainty(hardware(CHIP), share)
    assert (found.error("latency") is not None) == claims
    if not claims:
        assert found.words("latency") == "error not known: the host takes 11 % of the time"
        assert found.words("energy") == "never measured, error not known"
        assert found.to_dict()["latency"] == {"words": found.words("latency")}


def test_layers_that_the_host_is_given_end_the_claim() -> None:
    result = run(CHIP, host=("conv_2d",))
    assert result.cycles.host > MOST_HOST_SHARE * result.cycles
    assert result.latency_error is None
    assert "the host takes" in result.uncertainty.words("latency")


def test_a_program_that_is_an_estimate_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a network whose weights are not there: how far they pack is not known."""
    graph = npusim.load("digits_cnn")
    tensors = tuple(replace(each, data=SIZE_ONLY) if each.constant else each for each in graph.tensors)
    sized = npusim.simulate(npusim.compile(replace(graph, tensors=tensors), CHIP), timing_only=True)
    assert sized.program.timing_only
    assert sized.latency_error is None
    assert sized.uncertainty.words("latency") == "error not known: constants are known by their size only"
    assert sized.uncertainty.words("energy") == "never measured, error not known"
    monkeypatch.setattr(Program, "unknown_operators", {"FANCY": 1})
    assert run(CHIP).uncertainty.words("latency") == "error not known: operators are not known"


def test_several_devices_have_none() -> None:
    found = uncertainty(hardware(CHIP), devices=2)
    assert found.error("latency") is None
    assert found.words("latency") == "error not known: 2 devices, every row has one"
    assert uncertainty(hardware("edge-128"), devices=2).words("latency") == "idealised array, error not known"


def test_a_saved_program_knows_its_preset(tmp_path: Path) -> None:
    file = tmp_path / "digits.npu"
    save_program(npusim.compile(npusim.load("digits_cnn"), hw=CHIP), file)
    result = npusim.run(str(file), timing_only=True)
    assert isinstance(result, RunResult)
    assert result.latency_error == run(CHIP).latency_error is not None
