"""Outputs of a run: tensors that are named more than once are there once."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.tensor import TensorType
from npusim.isa.program.interpreter import interpret
from npusim.models.writer import ModelWriter, per_tensor


def repeated(times: int, size: int) -> bytes:
    """relu(x) as output so many times, in between x + x once and the first again in another shape."""
    writer = ModelWriter("repeated")
    ifm = writer.input("x", TensorType("int8", (1, size), per_tensor(0.1, 0)))
    result = writer.unary("RELU", ifm, per_tensor(0.1, 0), name="relu")
    total = writer.add(ifm, ifm, per_tensor(0.2, 0), name="total")
    return writer.finish([result, total, writer.reshape(result, (size,)), *[result] * (times - 1)])


def test_outputs_of_the_same_bytes_share_them() -> None:
    program = npusim.compile(tflite.parse(repeated(3, 500), "repeated"))
    values = [np.arange(-250, 250, 1).astype(np.int8).reshape(1, 500)]
    for found in (npusim.simulate(program, values).outputs, interpret(program, values)):
        relu, total, flat, again, last = found
        expected = np.maximum(values[0], 0)
        assert all(np.array_equal(each, expected) for each in (relu, again, last))
        assert np.array_equal(flat, expected[0])
        assert np.array_equal(total, values[0])
        assert np.shares_memory(relu, again)
        assert np.shares_memory(relu, last)
        assert [each.flags.writeable for each in found] == [False, True, flat.flags.writeable, False, False]
        total[:] = 0


def test_three_thousand_outputs_take_no_more_memory_than_one() -> None:
    peaks = []
    for times in (1, 3000):
        program = npusim.compile(tflite.parse(repeated(times, 1 << 17), "repeated"))
        tracemalloc.start()
        outputs = npusim.simulate(program).outputs
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(outputs) == times + 2
    assert peaks[1] < peaks[0] + (16 << 20)  # 375 MiB more if each had its own array


def test_a_file_is_not_filled_with_one_tensor(tmp_path: Path) -> None:
    model, output = tmp_path / "m.tflite", tmp_path / "o.npz"
    model.write_bytes(repeated(3000, 1 << 17))
    done = CliRunner().invoke(app, ["run", str(model), "--output", str(output)])
    assert done.exit_code == 2
    assert done.stderr == (
        f"npusim: {output}: 3002 outputs are 2 different ones, their copies would take 393216000 bytes, "
        "may take 268435456; leave --output out, or name each tensor once\n"
    )
    model.write_bytes(repeated(3, 1 << 10))
    assert CliRunner().invoke(app, ["run", str(model), "--output", str(output)]).exit_code == 0
    with np.load(output) as written:
        assert written.files == ["out0", "out1", "out2", "out3", "out4"]
        assert np.array_equal(written["out0"], written["out4"])


@pytest.mark.parametrize("name", ["one_tensor_output_3000_times.tflite"])
def test_the_reproducer(shared: Path, name: str) -> None:
    result = npusim.run(shared / "repro" / name)
    assert len(result.outputs) == 3000
    assert np.shares_memory(result.outputs[0], result.outputs[-1])
