"""The reference workloads of the capability table: what they are, and that all of them are simulated."""

from __future__ import annotations

import pytest

import npusim
from npusim.isa.base.tensor import SIZE_ONLY
from npusim.isa.hardware.cpu import cpu_core
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.float_version import float_version
from npusim.numbers.performance import CELLS, Reference
from npusim.session import references

ALL = [reference for row in CELLS for reference in (*row.references, *row.smaller)]


@pytest.mark.parametrize("reference", ALL, ids=str)
def test_every_reference_can_be_timed(reference: Reference) -> None:
    graph = references.graph(reference)
    first = graph.tensors[graph.inputs[0]].type
    assert first.dtype == reference.dtype
    result = npusim.simulate(npusim.compile(graph, "mobile-1024"), timing_only=True)
    assert result.cycles > 0
    assert result.energy_uj > 0


def test_the_real_version_of_a_network_has_its_sizes_and_no_codes() -> None:
    quantized = npusim.load("ds_cnn")
    real = float_version(quantized, "float16")
    assert [tensor.type.shape for tensor in real.tensors] == [
        tensor.type.shape for tensor in quantized.tensors
    ]
    operands = [real.tensors[number] for node in real.nodes for number in node.inputs if number is not None]
    assert {tensor.type.dtype for tensor in operands} == {"float16"}
    assert all(tensor.data is SIZE_ONLY for tensor in operands if tensor.constant)


def test_a_decision_costs_the_look_and_the_handover() -> None:
    machine = npusim.hardware("mobile-1024")
    done = references.decision(machine)
    look_us = cpu_core(machine.host.core).operator_us + machine.host.handover_us
    assert look_us < done.npu_time_us < look_us + 1  # and the fetch of the one instruction that asks for it
    assert done.npu_energy_uj > 0
    assert len(done.workloads) == 1


@pytest.mark.slow
def test_a_machine_that_holds_inputs_on_the_chip_has_a_table() -> None:
    """Its maps have as many rows as fit into half of the scratchpad; two programs of a decision do not share that."""
    chip = npusim.hardware("ethos-u55-128")
    assert "io" in chip.scratchpad.holds
    table = references.table(chip)
    assert all(cell.performance for cell in table.cells.values())
    assert table.standing.claim("latency") is not None


@pytest.mark.slow
def test_networks_that_a_chip_has_no_room_for_are_left_out() -> None:
    """MobileNet v1 has 4.2 M weights, the L2 of GAP9 1.5 MiB: DS-CNN stands for both networks."""
    table = references.table(npusim.hardware("gap9"))
    cell = table.cells["quantized8"]
    assert cell.performance is not None
    assert cell.provenance.startswith("execTime/powerUsage ds_cnn ")
    assert cell.provenance.endswith("; no room for mobilenet_v1 and mobilenet_v2")
    assert all(cell.performance for cell in table.cells.values())


@pytest.mark.parametrize(("kib", "rows"), [(8192, 56), (2048, 28), (1024, 14), (512, 7)])
def test_maps_have_the_rows_that_fit(kib: int, rows: int) -> None:
    """int32, 64 channels of 56 columns, two in and one out: 43,008 bytes a row, all in the scratchpad."""
    chip = change(npusim.hardware("ethos-u55-128"), {"scratchpad.size_kib": kib})
    assert rows_of(chip) == rows
    assert rows_of(npusim.hardware("edge-128")) == 56


def rows_of(chip: Hardware) -> int:
    program = references.fitting(Reference("add", "int32"), chip)
    assert program is not None
    return program.inputs[0].type.shape[1]
