"""Several inferences on the cores of a system: who runs which, throughput, and energy that is counted once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.system_file import SystemHardware
from npusim.numbers.energy import dram_background_mw, floor_mw, standing_mw

from ...command_line import command
from ...json_documents import faults

EDGE = npusim.hardware("edge-128")
SLOW = npusim.hardware("edge-128", clock_mhz=50.0)


def cores(*machines: npusim.Hardware) -> SystemHardware:
    return SystemHardware("bench", machines)


def test_one_inference_on_one_core_is_a_run() -> None:
    run = npusim.run("digits_cnn", timing_only=True)
    result = npusim.inferences("digits_cnn", "edge-128")
    (one,) = result.inferences
    assert (one.core, one.start_ms, one.latency_ms) == (0, 0.0, run.latency_ms)
    assert result.energy_uj == pytest.approx(run.energy_uj.total, rel=1e-12)
    assert result.cores[0].mac_utilization == pytest.approx(run.mac_utilization)
    # 13,760 bytes of constants and 18 instructions of 72, at 0.5 GB/s.
    assert result.loading_bytes == 13_760 + 18 * 72
    assert result.loading_ms == pytest.approx((13_760 + 18 * 72) / 0.5e9 * 1e3)
    assert result.steady_per_s is None


def test_the_first_inference_waits_for_its_own_program() -> None:
    """Unequal cores have a program each, of which the first inference needs one."""
    alone, two = (npusim.inferences("digits_cnn", each, 2) for each in (EDGE, cores(EDGE, SLOW)))
    assert two.first_loading_ms == alone.first_loading_ms == alone.loading_ms
    assert two.first_loading_bytes == alone.loading_bytes == 13_760 + 18 * 72
    assert two.loading_bytes > two.first_loading_bytes
    equal = npusim.inferences("digits_cnn", cores(EDGE, EDGE), 2)
    assert equal.loading_bytes == equal.first_loading_bytes


def test_inferences_of_one_core_follow_one_another() -> None:
    one, four = (npusim.inferences("digits_cnn", EDGE, number) for number in (1, 4))
    assert [each.start_ms for each in four.inferences] == pytest.approx(
        [number * one.total_ms for number in range(4)]
    )
    assert four.per_s == pytest.approx(one.per_s)
    assert four.steady_per_s == pytest.approx(four.per_s)
    assert four.energy_uj == pytest.approx(4 * one.energy_uj)


def test_a_core_that_is_free_takes_the_next() -> None:
    result = npusim.inferences("digits_cnn", cores(EDGE, SLOW), 6)
    taken = [use.inferences for use in result.cores]
    assert sum(taken) == len(result.inferences) == 6
    assert taken[0] > taken[1] > 0
    for core in range(2):
        own = [each for each in result.inferences if each.core == core]
        for before, after in pairwise(own):
            assert after.start_ms == pytest.approx(before.start_ms + before.latency_ms)
    last = max(each.start_ms + each.latency_ms for each in result.inferences)
    assert result.total_ms == pytest.approx(last)
    # A system of more cores than inferences leaves the others idle, but they draw power.
    idle = npusim.inferences("digits_cnn", cores(EDGE, EDGE, EDGE), 1)
    assert [use.inferences for use in idle.cores] == [1, 0, 0]
    assert [use.busy for use in idle.cores] == [1.0, 0.0, 0.0]


def test_steady_throughput_counts_parts_of_inferences() -> None:
    """By its end alone, the second inference of the fast core would be there in a third of its time."""
    alone = [npusim.inferences("digits_cnn", machine).per_s for machine in (EDGE, SLOW)]
    for number in (3, 4, 12):
        steady = npusim.inferences("digits_cnn", cores(EDGE, SLOW), number).steady_per_s
        assert steady is None or steady <= sum(alone)
    assert npusim.inferences("digits_cnn", cores(EDGE, SLOW), 3).steady_per_s is None, (
        "the slow one has no second"
    )
    assert npusim.inferences("digits_cnn", cores(EDGE, EDGE), 1).steady_per_s is None
    equal = npusim.inferences("digits_cnn", cores(EDGE, EDGE), 12)
    assert equal.steady_per_s == pytest.approx(equal.per_s, rel=0.01)


def test_the_standby_of_shared_memories_is_counted_once() -> None:
    one, two = (npusim.inferences("digits_cnn", cores(*[EDGE] * number), 4) for number in (1, 2))
    assert one.standby_uj == pytest.approx(floor_mw(EDGE) * one.total_ms)
    assert two.standby_uj == pytest.approx((2 * floor_mw(EDGE) - dram_background_mw(EDGE)) * two.total_ms)
    # A memory on the chip is shared as well, when it is behind a port.
    gap = npusim.hardware("gap9")
    both = npusim.inferences("digits_cnn", cores(gap, gap), 2)
    own = floor_mw(gap) - standing_mw(gap)["l2"]
    assert both.standby_uj == pytest.approx((2 * own + standing_mw(gap)["l2"]) * both.total_ms)
    # What moves is the same, but for rows that are open or closed beside another core.
    assert two.energy_uj - two.standby_uj == pytest.approx(one.energy_uj - one.standby_uj, rel=0.02)


def test_the_json_is_the_documented_one() -> None:
    assert faults("throughput", npusim.inferences("digits_cnn", cores(EDGE, SLOW), 3).to_dict()) == []


def test_what_cannot_be_timed() -> None:
    for number in (0, 1_000_001):
        with pytest.raises(NpusimError, match=rf"^inferences is {number}, must be 1 to 1000000$"):
            npusim.inferences("digits_cnn", EDGE, number)


def test_one_kind_of_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text('name = "two"\n[[core]]\nhardware = "edge-128"\ncount = 2\n')
    for words in (("--system", str(path)), ("--inferences", "2")):
        status, out, err = command("run", "tinyllama_1.1b", "--prompt", "3", *words)
        assert (status, out, err) == (2, "", f"npusim: {words[0]}: does not go with --prompt\n")
    npu = tmp_path / "digits.npu"
    npusim.save_program(npusim.compile(npusim.load("digits_cnn"), "edge-128"), npu)
    status, out, err = command("run", str(npu), "--inferences", "2")
    assert err == f"npusim: {npu}: is compiled for one machine already; --inferences takes a model\n"


def test_a_core_that_is_not_there_is_named_with_its_system(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text('name = "two"\n[[core]]\nhardware = "nope.toml"\n')
    status, out, err = command("run", "digits_cnn", "--system", str(path))
    assert (status, out) == (2, "")
    assert err == f"npusim: {path}: 1 fault: core.0.hardware: nope.toml: no such file\n"


def test_a_system_file_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text('name = "two"\n[[core]]\nhardware = "edge-128"\ncount = 2\n')
    result = npusim.inferences("digits_cnn", npusim.system(path), 2)
    assert (result.system, [each.core for each in result.inferences]) == ("two", [0, 1])
