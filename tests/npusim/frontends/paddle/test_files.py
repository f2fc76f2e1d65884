"""Files of Paddle that are damaged, incomplete or beyond npusim: one line each that says where and what to do."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends import frontend
from npusim.kernels.graph import placing
from tests.npusim.frontends.paddle.programs import model, program, saved, tensor

F = np.float32
X = {"x": ("float32", (1, 4, 6, 6))}
W = {"w": np.ones((8, 4, 3, 3), F)}
LINE = "y:Output = conv2d(Input=x, Filter=w) strides=[1,1] paddings=[1,1] groups=1"


def _with(text: str, parameters: Any = W, inputs: Any = X, outputs: Any = ("y",)) -> Callable[[Path], Path]:
    return lambda folder: model(folder, text, parameters, inputs, outputs)


def _conv(more: str) -> Callable[[Path], Path]:
    return _with(f"y:Output = conv2d(Input=x, Filter=w) {more}")


def _bytes(change: Callable[[bytes], bytes], suffix: str = ".pdiparams") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = model(folder, LINE, W, X, ["y"])
        other = path.with_suffix(suffix)
        other.write_bytes(change(other.read_bytes()))
        return path

    return write


def _stream(data: bytes) -> Callable[[Path], Path]:
    return _bytes(lambda _: data)


def _changed(change: Callable[[Any], Any]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        made = program(LINE, W, X, ["y"])
        change(made)
        return saved(folder, made, W)

    return write


def _alone(folder: Path) -> Path:
    path = model(folder, LINE, W, X, ["y"])
    path.with_suffix(".pdiparams").unlink()
    return path


def _parameters(folder: Path) -> Path:
    return model(folder, LINE, W, X, ["y"]).with_suffix(".pdiparams")


def _apart(names: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        text = LINE.replace("=w", f"={names}")
        path = folder / "apart"
        path.mkdir()
        (path / "__model__").write_bytes(program(text, {names: W["w"]}, X, ["y"]).SerializeToString())
        return path

    return write


def _drop_fetch(made: Any) -> None:
    del made.blocks[0].ops[-1]


def _undeclare(made: Any) -> None:
    del made.blocks[0].vars[2]


def _loop(made: Any) -> None:
    made.blocks[0].ops[1].type = "while"


BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "cut program": (_bytes(lambda data: data[: len(data) // 2], ".pdmodel"), "is no Paddle model: "),
    "no program": (
        _bytes(lambda data: b"\x12\x03abc", ".pdmodel"),
        "its program has no block with operators",
    ),
    "empty program": (_bytes(lambda data: b"", ".pdmodel"), "its program has no block with operators"),
    "a name that is no text": (
        _bytes(lambda data: data.replace(b"Filter", b"Filt\xff\xfe"), ".pdmodel"),
        "no UTF-8 text",
    ),
    "no parameters": (_alone, "has 1 parameters, and no model.pdiparams is next to it; put it there"),
    "parameters alone": (_parameters, "has parameters alone; give model.pdmodel, which finds them"),
    "cut parameters": (
        _bytes(lambda data: data[:-8]),
        "its bytes 30 to 1,182 are not in the file, which has 1,174",
    ),
    "more parameters": (_bytes(lambda data: data + data), "1,182 bytes follow the 1 tensors of the program"),
    "no stream": (_stream(b"PK\x03\x04" * 9), "begins as no tensor does"),
    "endless levels": (_stream(struct.pack("<IQ", 0, 1 << 60) + bytes(300)), "begins as no tensor does"),
    "damaged description": (
        _stream(struct.pack("<IQIi", 0, 0, 0, 4) + b"\xff\xff\xff\xff"),
        "description is damaged",
    ),
    "long description": (_stream(struct.pack("<IQIi", 0, 0, 0, 1 << 30)), "begins as no tensor does"),
    "size below 0": (
        _stream(struct.pack("<IQIi", 0, 0, 0, 13) + b"\x08\x05\x10" + b"\xff" * 9 + b"\x01"),
        "shape [-1]",
    ),
    "huge tensor": (
        _stream(struct.pack("<IQIi", 0, 0, 0, 8) + b"\x08\x05\x10\x80\x80\x80\x80\x10"),
        "are not in the file",
    ),
    "complex elements": (
        _stream(tensor(np.ones(2, F)).replace(b"\x08\x05", b"\x08\x17")),
        "elements of type 23",
    ),
    "file of a parameter": (
        _apart("w"),
        'parameter "w" has no file of its name, nor __params__, beside the program',
    ),
    "path of a parameter": (_apart("../w"), 'parameter "../w" has no file of its name'),
    "no result": (_changed(_drop_fetch), "has no operator fetch, so nothing is a result"),
    "undeclared variable": (_changed(_undeclare), 'variable "x" is read and not declared in the block'),
    "loop": (_changed(_loop), "operator 1 (while) runs another block; npusim has straight programs"),
    "unknown operator": (_with("y = trace(Input=x)", {}), "1 operator is not known to npusim"),
    "nothing writes it": (
        lambda folder: saved(folder, program("y = relu(X=z)\nz = relu(X=x)", {}, X, ["y"]), {}),
        'value "z" is read, and nothing before writes it',
    ),
    "left out": (_with("y = concat()", {}), "the operation does not take its inputs or attributes"),
    "left out filter": (_with("y:Output = conv2d(Input=x) strides=[1,1]", {}), "input Filter is left out"),
    "filter does not fit": (_conv("groups=3"), "filter [8, 4, 3, 3] does not fit 4 channels in 3 groups"),
    "strides": (_conv("strides=[0,1]"), "strides [0, 1] are not 2 numbers, 1 or more"),
    "paddings": (_conv("paddings=[1,1,1]"), "paddings [1, 1, 1] are not 2 or 4 numbers, 0 or more"),
    "kind of an attribute": (_conv("groups='two'"), "groups is 'two', must be a whole number"),
    "channels last": (_conv("data_format='NHWC'"), "npusim has NCHW: export the model with it"),
    "fused": (_conv("fuse_relu=True"), "was fused for one processor; give the original model"),
    "shape": (_with("y = reshape2(X=x) shape=[5,-1]", {}), "[1, 4, 6, 6] cannot have shape [5, -1]"),
    "shape that a run gives": (
        _with("s = cast(X=x) out_dtype=3\ny = reshape2(X=x, Shape=s)", {}),
        "must be a constant",
    ),
    "too large": (
        _with("y = fill_constant() shape=[1000000,1000000] value=1.0 dtype=5", {}),
        "elements at most",
    ),
    "tiled too large": (_with("y = tile(X=x) repeat_times=[1000,1000,1000,1]", {}), "elements at most"),
    "side too large": (
        _with("y = nearest_interp_v2(X=x) out_h=9000000 out_w=1 scale=[]", {}),
        "would have 9,000,000",
    ),
    "depth": (
        _with("i = cast(X=x) out_dtype=3\ny = one_hot_v2(X=i) depth=1000000000 dtype=5", {}),
        "depth is 1000000000",
    ),
    "axis": (_with("y = softmax(X=x) axis=7", {}), "axis is 7, must be -4..3"),
    "element type": (_with("y = cast(X=x) out_dtype=99", {}), "out_dtype is type 99, which npusim lacks"),
    "complex input": (_with("y = relu(X=x)", {}, {"x": ("uint32", [-1, -1])}), "size"),
    "weights of a layer": (
        _with("y, z:State = rnn(Input=x, PreState=x, WeightList=w) mode='GRU'"),
        "has 1 weights, 1 layers of 1 directions have 4",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_broken_file_is_one_line(what: str, tmp_path: Path) -> None:
    write, message = BROKEN[what]
    path = write(tmp_path)
    with pytest.raises(npusim.NpusimError) as fault:
        npusim.run(path, timing_only=True)
    text = str(fault.value).replace(str(path), "model.pdmodel")
    assert message in text
    assert len(text) <= 400
    assert "\n" not in text


@pytest.mark.slow
def test_command_ends_with_2_and_one_line(tmp_path: Path) -> None:
    path = _alone(tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "npusim", "run", path], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    [line] = run.stderr.splitlines()
    assert line == f"npusim: {path}: has 1 parameters, and no model.pdiparams is next to it; put it there"


def test_what_the_message_says_helps(tmp_path: Path) -> None:
    path = _parameters(tmp_path)
    graph = npusim.load(path.with_suffix(".pdmodel"))
    assert graph.tensors[graph.inputs[0]].type.shape == (1, 4, 6, 6)


def test_content_tells_the_format(tmp_path: Path) -> None:
    """A program without its suffix, a folder, and what is none."""
    path = model(tmp_path, "y = relu(X=x)", {}, X, ["y"])
    other = tmp_path / "unnamed"
    shutil.copy(path, other)
    assert [frontend.front_end_of(each).name for each in (path, other)] == ["Paddle", "Paddle"]
    folder = tmp_path / "folder"
    folder.mkdir()
    assert not frontend.is_model(folder)
    shutil.copy(path, folder / "__model__")
    assert frontend.front_end_of(folder).name == "Paddle"
    assert frontend.models_below(tmp_path) == [folder, path]


def test_combined_parameters_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = model(tmp_path, LINE, W, X, ["y"])
    shutil.copy(path, folder / "__model__")
    shutil.copy(path.with_suffix(".pdiparams"), folder / "__params__")
    x = np.ones((1, 4, 6, 6), F)
    assert npusim.run(folder, inputs={"x": x}).outputs[0][0, 0, 2, 2] == 36


def test_unknown_operator_is_timed_on_the_host(tmp_path: Path) -> None:
    """By the type and shape that its variable states, of which the batch is that of the input."""
    made = program("t = trace(Input=x)\ny = relu(X=t)", {}, X, ["y"], types={"t": ("float32", (-1, 5))})
    path = saved(tmp_path, made, {})
    with pytest.raises(npusim.NpusimError, match=r'Paddle "paddle\.trace"'):
        npusim.run(path, timing_only=True)
    result = npusim.run(path, timing_only=True, unknown="host")
    assert result.layers[0].unit == "host"


def test_variable_that_is_written_again(tmp_path: Path) -> None:
    """Every reader gets the value of its place in the program."""
    text = "t = relu(X=x)\ns = scale(X=t) scale=2.0\nt = exp(X=t)\ny = elementwise_add(X=s, Y=t)"
    x = np.linspace(-1, 1, 144, dtype=F).reshape(1, 4, 6, 6)
    positive = np.maximum(x, 0)
    found = npusim.run(model(tmp_path, text, {}, X, ["y"]), inputs={"x": x}).outputs[0]
    np.testing.assert_allclose(found, 2 * positive + np.exp(positive), rtol=1e-6)


def test_reduced_axes_of_older_versions(tmp_path: Path) -> None:
    """Before 2.5 what has no axes left has one of one element."""
    for version, shape in ((2006000, ()), (2004000, (1,)), (0, (1,))):
        path = saved(
            tmp_path, program("y = reduce_sum(X=x) reduce_all=True", {}, X, ["y"], version=version), {}
        )
        assert npusim.run(path, inputs={"x": np.ones((1, 4, 6, 6), F)}).outputs[0].shape == shape


def test_operator_of_ones_own(tmp_path: Path) -> None:
    path = model(tmp_path, "y = my_twice(X=x)", {}, X, ["y"])
    npusim.register_operator(
        "paddle.my_twice", lambda inputs, said: [2 * inputs[0]], lambda shapes, said: shapes
    )
    try:
        x = np.ones((1, 4, 6, 6), F)
        assert np.array_equal(npusim.run(path, inputs={"x": x}).outputs[0], 2 * x)
    finally:
        npusim.unregister_operator("paddle.my_twice")


PARTITION = """transpose2:conv2d_22.tmp_1:transpose_0.tmp_0,transpose_0.tmp_1
transpose2:conv2d_23.tmp_1:transpose_1.tmp_0,transpose_1.tmp_1
"""
"""The example of NNAdapter's text, as it stands there, for the head of an SSD."""


def test_partition_file_of_the_text_runs_as_it_stands(tmp_path: Path) -> None:
    """Kinds and variables are those of the program, a result that nothing reads (XShape) among them."""
    lines = [
        f"conv2d_2{at}.tmp_1:Output = conv2d(Input=x, Filter=w) paddings=[1,1]\n"
        f"transpose_{at - 2}.tmp_0, transpose_{at - 2}.tmp_1:XShape = transpose2(X=conv2d_2{at}.tmp_1) axis=[0,2,3,1]"
        for at in (2, 3, 4)
    ]
    text = "\n".join([*lines, "y = concat(X=transpose_0.tmp_0+transpose_1.tmp_0+transpose_2.tmp_0) axis=1"])
    path = model(tmp_path, text, W, X, ["y"])
    file = tmp_path / "partition.txt"
    file.write_text(PARTITION)
    with warnings.catch_warnings():
        warnings.simplefilter("error", placing.PartitionWarning)  # a line that takes no operator
        marked = placing.placed(npusim.load(path), placing.read(file))
        npusim.run(path, timing_only=True, partition=file)
    reasons = {node.name: node.on_host for node in marked.nodes if node.on_host}
    assert reasons == {
        f"transpose_{at}.tmp_0": f"forced to the host by line {at + 1} of {file}" for at in (0, 1)
    }
    file.write_text("conv2d:x,w:conv2d_23.tmp_1\n")
    result = npusim.run(path, "edge-128-float", timing_only=True, partition=file)
    units = {layer.name: layer.unit for layer in result.layers if layer.op == "conv_2d"}
    assert units == {"conv2d_22.tmp_1": "mac", "conv2d_23.tmp_1": "host", "conv2d_24.tmp_1": "mac"}
