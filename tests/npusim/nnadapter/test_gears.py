"""Dynamic shapes: a program per gear, chosen by the shapes of the inputs; other shapes are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from npusim import nnadapter as nna
from npusim.nnadapter import c
from npusim.nnadapter.hal.fake import Fake


def sum_model(*gears: Sequence[Sequence[int]], sizes: Sequence[int] = (-1, 3)) -> nna.Model:
    """relu(a + b), float32, each with its gears."""
    model = nna.Model()
    a, b = (model.add_operand(nna.OperandType(nna.FLOAT32, sizes, dynamic=one)) for one in gears)
    y = model.relu(model.add(a, b))
    model.identify([a, b], [y])
    model.finish()
    return model


def compiled(model: nna.Model, *names: str) -> nna.Compilation:
    """The model on devices."""
    compilation = nna.Compilation(
        model, nna.Context([nna.Device.acquire(name) for name in names or ("npusim",)])
    )
    compilation.finish()
    return compilation


def run(compilation: nna.Compilation, *shapes: Sequence[int]) -> nna.Result:
    """A run with inputs of these shapes."""
    execution = nna.Execution(compilation)
    for index, shape in enumerate(shapes):
        execution.set_input(index, np.full(shape, index - 2.5, np.float32))
    return execution.compute()


def test_a_program_per_gear_chosen_by_the_shapes() -> None:
    compilation = compiled(sum_model([[2, 3], [64, 3]], [[2, 3], [64, 3]]), "npusim_host")
    small, large = run(compilation, [2, 3], [2, 3]), run(compilation, [64, 3], [64, 3])
    assert [result.outputs[0].shape for result in (small, large)] == [(2, 3), (64, 3)]
    assert small.cycles < large.cycles
    assert compilation.inputs[0].dimensions == compilation.outputs[0].dimensions == [-1, 3]
    assert [gear.shapes for gear in compilation.gears] == [((2, 3), (2, 3)), ((64, 3), (64, 3))]


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ([[3, 3], [3, 3]], r"input 0: has shape \[3, 3\], must have \[2, 3\] or \[64, 3\]"),
        ([[6], [2, 3]], r"input 0: has shape \[6\], must have"),
        ([[2, 3], [64, 3]], r"inputs: have shapes \[2, 3\], \[64, 3\], must have \[2, 3\] with \[2, 3\] or"),
        ([[2, 3], [2, 4]], r"input 1: has shape \[2, 4\]"),
    ],
)
def test_other_shapes_are_refused(shapes: list[list[int]], sentence: str) -> None:
    compilation = compiled(sum_model([[2, 3], [64, 3]], [[2, 3], [64, 3]]))
    with pytest.raises(nna.InvalidDimensions, match=sentence):
        run(compilation, *shapes)


def test_no_program_is_compiled_twice_for_equal_shapes() -> None:
    begin = len(Fake.trace)
    compilation = compiled(sum_model([[2, 3], [4, 3], [2, 3]], [[2, 3], [4, 3], [2, 3]]), "fake_device")
    run(compilation, [2, 3], [2, 3])
    run(compilation, [2, 3], [2, 3])
    calls = [line.split()[0] for line in Fake.trace[begin:]]
    assert calls.count("create_program") == len(compilation.gears) == 2
    assert calls.count("execute_program") == 2


def test_inputs_that_do_not_meet_may_not_say_different_numbers_of_gears() -> None:
    model = nna.Model()
    rows = [[[2, 3], [4, 3]], [[2, 3], [4, 3], [6, 3]]]
    a, b = (model.add_operand(nna.OperandType(nna.FLOAT32, [-1, 3], dynamic=one)) for one in rows)
    model.identify([a, b], [model.relu(a), model.relu(b)])  # type: ignore[list-item]
    model.finish()
    with pytest.raises(
        nna.InvalidDimensions,
        match=r"the same number of shapes, one or more; they say operands\[0\] 2, operands\[1\] 3$",
    ):
        compiled(model)


def test_one_row_is_that_of_all_gears() -> None:
    compilation = compiled(sum_model([[2, 3], [1, 3]], [[2, 3]]))
    assert [gear.shapes for gear in compilation.gears] == [((2, 3), (2, 3)), ((1, 3), (2, 3))]
    assert run(compilation, [1, 3], [2, 3]).outputs[0].shape == (2, 3)


def test_one_input_that_is_fixed() -> None:
    model = nna.Model()
    a = model.add_operand(nna.OperandType(nna.FLOAT32, [-1, 3], dynamic=[[1, 3], [5, 3]]))
    b = model.add_operand(nna.OperandType(nna.FLOAT32, [1, 3]))
    y = model.add(a, b)
    model.identify([a, b], [y])  # type: ignore[list-item]
    model.finish()
    compilation = compiled(model)
    assert run(compilation, [5, 3], [1, 3]).outputs[0].shape == (5, 3)


@pytest.mark.parametrize(
    ("gears", "sentence"),
    [
        (([[2, 3], [4, 3]], [[2, 3], [4, 3], [6, 3]]), r"different numbers of shapes"),
    ],
)
def test_gears_that_do_not_go_together(gears: tuple[list[list[int]], ...], sentence: str) -> None:
    with pytest.raises(nna.InvalidDimensions, match=sentence):
        compiled(sum_model(*gears))


def test_shapes_that_do_not_fit_each_other_are_found_when_the_model_is_compiled() -> None:
    with pytest.raises(nna.NNAdapterError, match=r"operations\[0\] \(ADD\)"):
        compiled(sum_model([[2, 3]], [[4, 3]]))


@pytest.mark.parametrize("gears", [[[2, 3], [4, 3]], []])
def test_gears_in_c_and_the_shape_from_the_access_function(gears: list[list[int]]) -> None:
    place = c.Ref()
    open_type = {"precision": "FLOAT32", "dimensions": [-65535, 3], "dynamic": gears}
    assert c.NNAdapterModel_create(place) == 0
    model, operands = place.value, []
    for _ in range(2):
        assert c.NNAdapterModel_addOperand(model, open_type, place) == 0
        operands.append(place.value)
    x, y = operands
    assert c.NNAdapterModel_addOperation(model, c.NNADAPTER_RELU, 1, [x], 1, [y], place) == 0
    assert c.NNAdapterModel_identifyInputsAndOutputs(model, 1, [x], 1, [y]) == 0
    assert c.NNAdapterModel_finish(model) == 0
    assert c.NNAdapterModel_getOperandType(y, place) == 0
    assert place.value.dimensions == [-65535, 3]
    device, context, compilation, execution = (c.Ref() for _ in range(4))
    assert c.NNAdapterDevice_acquire("npusim", device) == 0
    assert (
        c.NNAdapterContext_create([device.value], 1, None, context) == 0
    )  # the seed's form, without callback
    assert c.NNAdapterCompilation_create(model, None, None, 0, None, context.value, compilation) == 0
    assert c.NNAdapterCompilation_finish(compilation.value) == 0
    counts, types = (c.Ref(), c.Ref()), []
    assert (
        c.NNAdapterCompilation_queryInputsAndOutputs(compilation.value, counts[0], None, counts[1], None) == 0
    )
    assert [one.value for one in counts] == [1, 1]
    assert (
        c.NNAdapterCompilation_queryInputsAndOutputs(compilation.value, counts[0], types, counts[1], None)
        == 0
    )
    assert types[0].dimensions.count == 2
    assert types[0].dimensions.data[0] == c.NNADAPTER_UNKNOWN
    assert types[0].dimensions.dynamic_data == gears
    assert c.NNAdapterExecution_create(compilation.value, execution) == 0
    written: list[list[int]] = []
    memory = {"rows": 4, "buffer": bytearray(48)}

    def read(memory: dict, type_: c.NNAdapterOperandType, device_buffer: object) -> bytearray:
        type_.dimensions.data[0] = memory["rows"]
        return memory["buffer"][: 12 * memory["rows"]]

    def write(memory: dict, type_: c.NNAdapterOperandType) -> bytearray:
        written.append(list(type_.dimensions))
        return memory["buffer"]

    assert c.NNAdapterExecution_setInput(execution.value, 0, memory, read) == 0
    assert c.NNAdapterExecution_setOutput(execution.value, 0, memory, write) == 0
    for rows, code in ((4, 0), (2, 0), (3, 2 if gears else 0)):
        memory["rows"] = rows
        assert c.NNAdapterExecution_compute(execution.value) == code, c.last_error()
    assert written == [[4, 3], [2, 3], *([] if gears else [[3, 3]])]


def test_shapes_that_only_a_run_tells_are_compiled_then() -> None:
    compilation = compiled(sum_model([], []), "npusim_host")
    assert not compilation.gears
    assert not compilation.pieces
    assert compilation.inputs[0].dimensions == [-1, 3]
    small, large = run(compilation, [2, 3], [2, 3]), run(compilation, [64, 3], [64, 3])
    assert [result.outputs[0].shape for result in (small, large)] == [(2, 3), (64, 3)]
    named = compiled(sum_model([[2, 3], [64, 3]], [[2, 3], [64, 3]]), "npusim_host")
    assert [small.cycles, large.cycles] == [run(named, *[shape] * 2).cycles for shape in ([2, 3], [64, 3])]
    run(compilation, [2, 3], [2, 3])
    assert [gear.shapes[0] for gear in compilation.gears] == [(2, 3), (64, 3)]
    for shapes, sentence in (
        ([[2, 4], [2, 4]], r"operands\[0\]: has shape \[2, 4\], must be FLOAT32\[\?, 3\]"),
        ([[6], [2, 3]], r"operands\[0\]: has shape \[6\], must be"),
    ):
        with pytest.raises(nna.InvalidDimensions, match=sentence):
            run(compilation, *shapes)
    with pytest.raises(nna.NNAdapterError, match=r"operations\[0\] \(ADD\)"):
        run(compilation, [2, 3], [4, 3])


def test_an_input_that_names_shapes_beside_one_that_does_not() -> None:
    compilation = compiled(sum_model([[2, 3], [4, 3]], []))
    assert run(compilation, [4, 3], [1, 3]).outputs[0].shape == (4, 3)
    with pytest.raises(nna.InvalidDimensions, match=r"has shape \[3, 3\], must be \[2, 3\] or \[4, 3\]"):
        run(compilation, [3, 3], [1, 3])


def test_as_many_shapes_as_a_model_may_name_stay_compiled() -> None:
    begin = len(Fake.trace)
    compilation = compiled(sum_model([], []), "fake_device")
    for rows in (*range(1, 11), 10, 1):
        run(compilation, [rows, 3], [rows, 3])
    assert [gear.shapes[0][0] for gear in compilation.gears] == [4, 5, 6, 7, 8, 9, 10, 1]
    calls = [line.split()[0] for line in Fake.trace[begin:]]
    assert (calls.count("create_program"), calls.count("destroy_program")) == (11, 3)


def test_shapes_that_a_run_told_are_kept(tmp_path: Path) -> None:
    def cached(model: nna.Model | None) -> nna.Compilation:
        context = nna.Context([nna.Device.acquire("npusim")])
        compilation = nna.Compilation(model, context, cache_dir=tmp_path, token="open")
        compilation.finish()
        return compilation

    first = cached(sum_model([], []))
    assert not (tmp_path / "open.nnc").exists()
    wanted = run(first, [2, 3], [2, 3])
    alone = cached(None)
    assert alone.restored
    assert run(alone, [2, 3], [2, 3]).cycles == wanted.cycles
    with pytest.raises(nna.InvalidDimensions, match=r"input 0: has shape \[4, 3\], must have \[2, 3\]"):
        run(alone, [4, 3], [4, 3])
    again = cached(sum_model([], []))
    assert again.restored
    assert run(again, [4, 3], [4, 3]).outputs[0].shape == (4, 3)


def test_nobody_can_say_what_is_supported_of_open_shapes() -> None:
    with (
        nna.Context([nna.Device.acquire("npusim")]) as context,
        pytest.raises(nna.InvalidDimensions, match="model: sizes of inputs are open; give shapes"),
    ):
        context.supported_operations(sum_model([], []))
