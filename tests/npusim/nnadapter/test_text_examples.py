"""What the text shows as examples, as cases of our own: enums, all calls in a row, memory that grows, lines, caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from npusim import nnadapter as nna
from npusim.nnadapter import c

ENUMS = {
    "FUSED": ["NONE", "RELU", "RELU1", "RELU6"],
    "AUTO_PAD": ["NONE", "SAME", "VALID"],
    "PAD_MODE": ["NONE", "CONSTANT", "REFLECT", "REPLICATE", "EDGE"],
    "INTERPOLATE_MODE": ["NONE", "BILINEAR", "NEAREST"],
    "": ["CPU", "GPU", "ACCELERATOR"],
}
PLAIN = ["BOOL8", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"]


@pytest.mark.parametrize("kind", ENUMS)
def test_codes_are_numbered_from_zero(kind: str) -> None:
    names = [f"{kind}_{name}" if kind else name for name in ENUMS[kind]]
    assert [getattr(c, f"NNADAPTER_{name}") for name in names] == list(range(len(names)))
    assert [int(getattr(nna, name)) for name in names] == list(range(len(names)))


def test_precisions_and_their_numbers() -> None:
    plain = [*PLAIN, "FLOAT16", "FLOAT32", "FLOAT64"]
    assert [int(nna.Precision[name]) for name in plain] == list(range(12))
    quantized = [kind.name for kind in nna.Precision if kind >= 24]
    assert [int(nna.Precision[name]) for name in quantized] == list(range(24, 34))
    assert quantized[0] == "QUANT_INT8_SYMM_PER_LAYER"
    assert quantized[-1] == "QUANT_UINT8_ASYMM_PER_CHANNEL"


def done(code: int | None) -> None:
    assert code == c.NNADAPTER_NO_ERROR, c.last_error()


class Memory:
    """Memory of a framework: sizes, and a buffer that grows when an output needs more."""

    def __init__(self, array: Any = None) -> None:
        self.dimensions = [] if array is None else list(array.shape)
        self.buffer = bytearray() if array is None else bytearray(array.tobytes())


def access_input(memory: Memory, type_: c.NNAdapterOperandType) -> bytearray:
    type_.dimensions = memory.dimensions
    return memory.buffer


def access_output(memory: Memory, type_: c.NNAdapterOperandType) -> bytearray:
    memory.dimensions = list(type_.dimensions)
    length = 4 * int(np.prod(memory.dimensions))
    if length > len(memory.buffer):
        memory.buffer = bytearray(length)
    return memory.buffer


def test_the_whole_chain_of_calls_with_memory_that_grows() -> None:
    """ADD with RELU behind it: device, context, model, compilation, execution, result."""
    device, context, model, place, compilation, execution = (c.Ref() for _ in range(6))
    done(c.NNAdapterDevice_acquire("npusim", device))
    done(c.NNAdapterContext_create([device.value], 1, "NPUSIM_CLOCK_MHZ=250;", context))
    done(c.NNAdapterModel_create(model))
    operands = []
    for kind in (
        {"precision": "NNADAPTER_FLOAT32", "dimensions": [c.NNADAPTER_UNKNOWN, 2]},
        {"precision": "NNADAPTER_FLOAT32", "dimensions": [1, 2]},
        {"precision": "NNADAPTER_INT32", "dimensions": [1]},
        {"precision": "NNADAPTER_FLOAT32", "dimensions": []},
    ):
        done(c.NNAdapterModel_addOperand(model.value, kind, place))
        operands.append(place.value)
    x, one, fuse, y = operands
    done(c.NNAdapterModel_setOperandValue(one, np.float32([[-2, 1]]), 8, True))
    done(c.NNAdapterModel_setOperandValue(fuse, np.int32([c.NNADAPTER_FUSED_RELU]), 4, False))
    done(c.NNAdapterModel_addOperation(model.value, c.NNADAPTER_ADD, 3, [x, one, fuse], 1, [y], place))
    done(c.NNAdapterModel_identifyInputsAndOutputs(model.value, 1, [x], 1, [y]))
    done(c.NNAdapterModel_finish(model.value))
    done(c.NNAdapterCompilation_create(model.value, None, None, 0, None, context.value, compilation))
    done(c.NNAdapterCompilation_finish(compilation.value))
    done(c.NNAdapterExecution_create(compilation.value, execution))
    output = Memory()
    for rows in (2, 3):
        array = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        done(c.NNAdapterExecution_setInput(execution.value, 0, Memory(array), access_input))
        done(c.NNAdapterExecution_setOutput(execution.value, 0, output, access_output))
        done(c.NNAdapterExecution_compute(execution.value))
        assert output.dimensions == [rows, 2]
        found = np.frombuffer(output.buffer, np.float32).reshape(rows, 2)
        assert found.tolist() == np.maximum(array + np.float32([-2, 1]), 0).tolist()


LINES = {
    "relu:image:first": [0],  # inputs and outputs
    "relu::second": [1],  # any inputs
    "relu:first": [1],  # any outputs
    "relu": [0, 1],  # the whole class
    "abs:second:third\nrelu:image": [0, 2],  # a line for each
    "add:second,third": [3],  # several names, between commas
    "add:third,second:sum": [3],  # in any order
    "add:third": [3],  # some of them
    "add:image": [],
}


@pytest.mark.parametrize("text", LINES)
def test_lines_of_a_partition_file(text: str, tmp_path: Path) -> None:
    """type:inputs:outputs, of which names may be left out; the file and the text say the same."""
    operators = [
        ("relu", ["image"], ["first"]),
        ("relu", ["first"], ["second"]),
        ("abs", ["second"], ["third"]),
        ("add", ["second", "third"], ["sum"]),
    ]
    (tmp_path / "lines.txt").write_text(f"{text}\n")
    assert nna.Partition.parse(text).forced(operators) == LINES[text]
    assert nna.Partition.read(tmp_path / "lines.txt").forced(operators) == LINES[text]


def chain(*names: str) -> nna.Model:
    """Functions one behind the other, of operands with the names of the functions."""
    model = nna.Model()
    x = last = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]), "image")
    for name in names:
        output = model.add_operand(nna.OperandType(nna.FLOAT32), f"{name}_out")
        last = getattr(model, name)(last, outputs=[output])
    model.identify([x], [last])
    model.finish()
    return model


class OnlySoftmax(nna.Driver):
    """The first step of a new device, as the text advises: one operation, SOFTMAX."""

    name, vendor, type, version = "text_npu", "Vendor", nna.ACCELERATOR, 1
    keys: ClassVar[dict[str, Any]] = {"TEXT_NPU_SELECTED_DEVICE_IDS": int}

    def create_context(self, device: object, properties: nna.Properties, callback: Any) -> Any:
        return properties["TEXT_NPU_SELECTED_DEVICE_IDS"]

    def validate_program(self, context: Any, model: nna.Submodel) -> list[str | None]:
        return [None if step.kind == "softmax" else "is not softmax" for step in model.operations]

    def create_program(self, context: Any, model: nna.Submodel | None, cache: nna.Cache) -> Any:
        assert context == 0
        return model

    def execute_program(self, program: Any, inputs: Any, outputs: Any) -> None:
        powers = np.exp(inputs[0].read())
        outputs[0].write(powers / powers.sum(1, keepdims=True))


def test_a_new_device_begins_with_one_operation() -> None:
    nna.register(OnlySoftmax)
    try:
        devices = [nna.Device.acquire("text_npu"), nna.Device.acquire("npusim_host")]
        with nna.Context(devices, "TEXT_NPU_SELECTED_DEVICE_IDS=0;") as context:
            model = chain("abs", "softmax", "relu")
            assert context.supported_operations(model) == [True] * 3
            assert [row.get("text_npu") for row in context.supported_operations(model).reasons] == [
                "is not softmax",
                None,
                "is not softmax",
            ]
            compilation = nna.Compilation(model, context)
            compilation.finish()
            execution = nna.Execution(compilation)
            execution.set_input(0, np.zeros((2, 3), np.float32))
            result = execution.compute()
        assert [piece.device for piece in result.pieces] == ["npusim_host", "text_npu", "npusim_host"]
        np.testing.assert_allclose(result.outputs[0], np.full((2, 3), 1 / 3), rtol=1e-6)
    finally:
        nna.unregister("text_npu")


def test_the_three_ways_to_use_a_cache(tmp_path: Path) -> None:
    """Bytes in memory go before a file, a file before the model; without either nothing is written."""
    model, context = chain("abs"), nna.Context([nna.Device.acquire("npusim")])

    def compiled(given: nna.Model | None, **cache: Any) -> nna.Compilation:
        compilation = nna.Compilation(given, context, **cache)
        compilation.finish()
        return compilation

    assert not compiled(model).restored
    assert not list(tmp_path.iterdir())
    first = compiled(model, token="abc", cache_dir=tmp_path)
    assert not first.restored
    assert (tmp_path / "abc.nnc").is_file()
    other = chain("relu", "abs")  # the model is ignored
    assert [piece.operations for piece in compiled(other, token="abc", cache_dir=tmp_path).pieces] == [
        ("operations[0]",)
    ]
    data = (tmp_path / "abc.nnc").read_bytes()
    assert compiled(None, token="abc", buffer=data).restored
    own = compiled(model, cache_dir=tmp_path)
    assert own.token is not None
    assert len(own.token) == 32


def test_operations_are_sorted_and_drawn() -> None:
    """A model's operations may be added in any order; its drawing has every one, with edges."""
    model = nna.Model()
    names = ("image", "first", "second")
    x, first, second = (model.add_operand(nna.OperandType(nna.FLOAT32, [2]), name) for name in names)
    model.abs(first, outputs=[second])
    model.relu(x, outputs=[first])
    model.identify([x], [second])
    model.finish()
    assert [operation.kind for operation in model.operations] == ["abs", "relu"]
    assert [operation.kind for operation in model.sorted_operations] == ["relu", "abs"]
    drawing = model.dot()
    assert drawing.startswith("digraph")
    assert all(word in drawing for word in ("ABS", "RELU", "->"))


def test_several_executions_have_their_own_inputs() -> None:
    with nna.Context([nna.Device.acquire("npusim_host")]) as context:
        compilation = nna.Compilation(chain("relu"), context)
        compilation.finish()
        executions = [nna.Execution(compilation) for _ in range(2)]
        for number, execution in enumerate(executions):
            execution.set_input(0, np.full((2, 3), number, np.float32))
        executions[0].destroy()
        assert executions[1].compute().outputs[0].max() == 1
