"""What is remembered from one design point to the next changes no result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import npusim
from npusim.isa.base.errors import ProgramError
from npusim.isa.engines.systolic import timing as mac_timing
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program import container


def changed(section: str, **values: Any) -> Hardware:
    base = npusim.hardware("edge-128")
    return base.model_copy(update={section: getattr(base, section).model_copy(update=values)})


POINTS = (
    npusim.hardware("edge-128"),
    changed("scratchpad", size_kib=48),
    changed("mac_array", rows=12),
    changed("mac_array", columns=4),
    changed("dma", channels=1),
    changed("dma", decoder_bytes_per_cycle=0),
    changed("dram", latency_ns=300),
    npusim.hardware("edge-128"),
)


def numbers(result: npusim.RunResult) -> dict[str, Any]:
    apart = ("wall_s", "provenance")
    return {key: value for key, value in result.to_dict().items() if key not in apart}


def forget() -> None:
    for timing in (value for value in vars(mac_timing).values() if hasattr(value, "cache_clear")):
        timing.cache_clear()


def sweep(graph: npusim.Graph) -> Iterator[tuple[npusim.Program, npusim.RunResult]]:
    for hardware in POINTS:
        program = npusim.compile(graph, hardware)
        yield program, npusim.simulate(program, timing_only=True)


@pytest.mark.slow
def test_a_sweep_gives_what_each_point_gives_alone() -> None:
    for hardware, (program, result) in zip(POINTS, sweep(npusim.load("ds_cnn")), strict=True):
        forget()
        alone = npusim.compile(npusim.load("ds_cnn"), hardware)
        file = container.dumps(alone)
        assert container.dumps(program) == file
        assert numbers(npusim.simulate(container.loads(file), timing_only=True)) == numbers(result)


@pytest.mark.parametrize("timing_only", [True, False])
def test_a_program_on_other_hardware_gives_what_its_file_would(timing_only: bool) -> None:
    program = npusim.compile(npusim.load("ds_cnn"), "edge-128")
    data = container.dumps(program)
    before = numbers(npusim.simulate(program, timing_only=True))
    slow = changed("dram", latency_ns=3000, bandwidth_gb_per_s=0.25)
    warm = npusim.simulate(program, hardware=slow, timing_only=timing_only)
    cold = npusim.simulate(container.loads(data), hardware=slow, timing_only=timing_only)
    assert numbers(warm) == numbers(cold)
    assert warm.hardware == slow
    assert warm.cycles > before["cycles"]["total"]
    assert all((a == b).all() for a, b in zip(warm.outputs, cold.outputs, strict=True))
    assert numbers(npusim.simulate(program, timing_only=True)) == before


def test_hardware_that_lacks_what_a_program_uses_is_refused() -> None:
    program = npusim.compile(npusim.load("ds_cnn"), "edge-128")
    with pytest.raises(ProgramError, match=r"outside the scratchpad of 16384 bytes|outside the 16384 bytes"):
        npusim.simulate(program, hardware=changed("scratchpad", size_kib=16), timing_only=True)
    with pytest.raises(ProgramError, match="has no decoder"):
        npusim.simulate(program, hardware=changed("dma", decoder_bytes_per_cycle=0), timing_only=True)
