"""What others write against `npusim.nnadapter` by name: the settled part of its interface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim import nnadapter as nna
from npusim.nnadapter import c

CODES = {"FLOAT32": 10, "RELU": 65, "MODEL_INPUT": 4}


def test_errors_are_faults_of_the_user() -> None:
    assert issubclass(nna.NNAdapterError, npusim.NpusimError)
    assert issubclass(nna.Truncated, nna.NNAdapterError)


def test_a_type_is_made_of_a_code_and_sizes_and_can_be_written() -> None:
    type_ = nna.OperandType(CODES["FLOAT32"], [2, 3])
    type_.dimensions = [4, 3]
    type_.lifetime = CODES["MODEL_INPUT"]
    assert (type_.precision, list(type_.dimensions), type_.lifetime) == (10, [4, 3], 4)
    codes = nna.OperandType(24, [1], scale=0.5)
    assert (codes.scale, codes.zero_point, codes.scales, codes.channel_dim) == (0.5, None, None, None)


def test_a_partition_file_says_which_operators_it_forces(tmp_path: Path) -> None:
    path = tmp_path / "cpu.txt"
    path.write_text("conv2d:image\nsoftmax-concat::cat\n", "utf-8")
    operators = [
        ("conv2d", ["image", "weights"], ["a"]),
        ("conv2d", ["a", "weights"], ["b"]),
        ("softmax", ["b"], ["c"]),
        ("concat", ["b", "c"], ["cat"]),
        ("concat", ["b", "c"], ["dog"]),
    ]
    assert nna.Partition.read(path).forced(operators) == [0, 2, 3]


def test_a_container_is_entries() -> None:
    entries = {"num_caches": b"\1", "": b"", "long": bytes(range(7))}
    data = nna.write_cache(entries)
    assert nna.read_cache(data) == entries
    with pytest.raises(nna.Truncated, match="too short"):
        nna.read_cache(data[:23])
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(nna.NNAdapterError):
                nna.read_cache(bytes(flipped))


def test_a_refused_container_is_compiled_anew_with_a_model_and_raises_without() -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    model.identify([x], [model.relu(x)])
    model.finish()
    context = nna.Context([nna.Device.acquire("npusim")])

    def compiled(given: nna.Model | None) -> nna.Compilation:
        compilation = nna.Compilation(given, context, token="t", buffer=b"nothing of ours")
        compilation.finish()
        return compilation

    with pytest.warns(nna.CacheWarning):
        assert not compiled(model).restored
    with pytest.raises(nna.CacheRefused):
        compiled(None)


def test_the_c_interface_runs_a_model_with_an_access_function() -> None:
    def done(code: int | None) -> None:
        assert code == c.NNADAPTER_NO_ERROR, c.last_error()

    device, context, model, x, y, operation = (c.Ref() for _ in range(6))
    compilation, execution = c.Ref(), c.Ref()
    done(c.NNAdapterDevice_acquire("npusim", device))
    done(c.NNAdapterContext_create([device.value], 1, "", None, context))
    done(c.NNAdapterModel_create(model))
    kind = nna.OperandType(CODES["FLOAT32"], [2, 3])
    done(c.NNAdapterModel_addOperand(model.value, kind, x))
    done(c.NNAdapterModel_addOperand(model.value, kind, y))
    code = CODES["RELU"]
    done(c.NNAdapterModel_addOperation(model.value, code, 1, [x.value], 1, [y.value], operation))
    done(c.NNAdapterModel_identifyInputsAndOutputs(model.value, 1, [x.value], 1, [y.value]))
    done(c.NNAdapterModel_finish(model.value))
    done(c.NNAdapterCompilation_create(model.value, None, None, 0, None, context.value, compilation))
    done(c.NNAdapterCompilation_finish(compilation.value))
    done(c.NNAdapterExecution_create(compilation.value, execution))

    given, taken = np.float32([[-1, 2, -3], [4, -5, 6]]), np.zeros((2, 3), np.float32)
    seen = []

    def access(memory: np.ndarray, type_: nna.OperandType) -> np.ndarray:
        seen.append(list(type_.dimensions))
        type_.dimensions = list(memory.shape)
        return memory

    done(c.NNAdapterExecution_setInput(execution.value, 0, given, access))
    done(c.NNAdapterExecution_setOutput(execution.value, 0, taken, access))
    done(c.NNAdapterExecution_compute(execution.value))
    assert np.array_equal(taken, np.maximum(given, 0))
    assert seen[-1] == [2, 3]
