"""The built-in models: published figures, files that LiteRT accepts, healthy activations, the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pytest
import tflite

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.models import MODELS, digits, digits_test, names, nearest, path_or_bytes, resolve
from npusim.models import cache as model_cache
from npusim.models.synthesis import RandomNetwork
from npusim.models.training import Conv2D, DepthwiseConv2D, Relu, cross_entropy
from npusim.models.writer import ModelWriter, affine, per_channel, per_tensor

GENERATED = tuple(model.name for model in MODELS if not model.ships)
CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
CODES = {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tests leave the cache of whoever runs them alone."""
    monkeypatch.setenv("NPUSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@cache
def file_of(name: str) -> bytes:
    model = resolve(name)
    assert model is not None
    return model.tflite() if model.ships else model.generate()


class Row(NamedTuple):
    """An operator as the file has it: its code, version, tensors, and the shapes of weights and output."""

    code: str
    version: int
    inputs: list[Any]
    output: Any

    @property
    def weights_shape(self) -> tuple[int, ...]:
        return tuple(self.inputs[1].ShapeAsNumpy().tolist())

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple(self.output.ShapeAsNumpy().tolist())

    @property
    def macs(self) -> int:
        taps = self.weights_shape[1:3] if self.code == "DEPTHWISE_CONV_2D" else self.weights_shape[1:]
        return prod(self.output_shape) * prod(taps)


def rows_of(data: bytes) -> list[Row]:
    """The operators of a file, read with the `tflite` package alone."""
    model = tflite.Model.GetRootAs(data)
    graph = model.Subgraphs(0)
    rows = []
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        code = model.OperatorCodes(operator.OpcodeIndex())
        inputs = [graph.Tensors(i) for i in operator.InputsAsNumpy()]
        rows.append(
            Row(CODES[code.BuiltinCode()], code.Version(), inputs, graph.Tensors(operator.Outputs(0)))
        )
    return rows


def litert(data: bytes) -> Any:
    """An interpreter with the reference kernels that keeps all tensors."""
    module = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="LiteRT (ai-edge-litert) is not installed"
    )
    interpreter = module.Interpreter(
        model_content=data,
        experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    return interpreter


def run_litert(data: bytes, image: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
    """The interpreter after one inference, on random codes unless there is an image, and its output."""
    interpreter = litert(data)
    for details in interpreter.get_input_details():
        codes = np.random.default_rng(0).integers(-128, 128, details["shape"], np.int8)
        interpreter.set_tensor(details["index"], codes if image is None else image)
    interpreter.invoke()
    return interpreter, interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


# Published figures


@pytest.mark.parametrize("name", names())
def test_the_registry_says_what_the_file_holds(name: str) -> None:
    model = resolve(name)
    rows = [row for row in rows_of(file_of(name)) if row.code in CONVOLUTIONS]
    assert model is not None
    assert model.macs == sum(row.macs for row in rows)
    assert model.parameters == sum(prod(row.weights_shape) + row.output_shape[-1] for row in rows)


@pytest.mark.parametrize(
    ("name", "million_macs"),
    [
        ("mobilenet_v1", 569),  # arXiv 1704.04861, table 4
        ("mobilenet_v2", 300),  # arXiv 1801.04381, table 4
        ("resnet18", 1810),  # torchvision, models page: 1.81 G
        ("resnet50", 4090),  # torchvision, models page: 4.09 G
        ("ds_cnn", 2.66),  # MLPerf Tiny (arXiv 2106.07597)
        ("resnet8", 12.5),  # the same
        ("vww_mobilenet", 7.49),  # the same
    ],
)
def test_macs_are_the_published_ones(name: str, million_macs: float) -> None:
    model = resolve(name)
    assert model is not None
    assert model.macs / 1e6 == pytest.approx(million_macs, rel=0.003)


@pytest.mark.parametrize(
    ("name", "published", "per_normalized_channel"),
    [
        # Folding leaves one bias per channel of gamma, beta (2) and, where counted, moving mean and variance.
        ("mobilenet_v1", 4_231_976, 1),  # Keras, trainable
        ("mobilenet_v2", 3_504_872, 1),  # torchvision
        ("resnet18", 11_689_512, 1),  # torchvision
        ("resnet50", 25_557_032, 1),  # torchvision
        ("ds_cnn", 24_908, 4),  # Keras, all, with convolution biases: MLPerf Tiny reference model
        ("vww_mobilenet", 221_794, 4),  # the same
    ],
)
def test_parameters_are_the_published_ones_without_batch_normalization(
    name: str, published: int, per_normalized_channel: int
) -> None:
    model = resolve(name)
    # The last convolution of MobileNet v1 makes the logits and is not normalized; Keras ends the others in Dense.
    normalized = sum(
        row.output_shape[-1]
        for row in rows_of(file_of(name))
        if row.code in CONVOLUTIONS[:2] and row.output_shape[-1] != 1000
    )
    assert model is not None
    assert model.parameters + per_normalized_channel * normalized == published


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("digits_cnn", {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 1, "ADD": 1, "MAX_POOL_2D": 1, "AVERAGE_POOL_2D": 1,
                        "RESHAPE": 1, "FULLY_CONNECTED": 1, "SOFTMAX": 1}),
        ("ds_cnn", {"CONV_2D": 5, "DEPTHWISE_CONV_2D": 4, "AVERAGE_POOL_2D": 1, "RESHAPE": 1,
                    "FULLY_CONNECTED": 1, "SOFTMAX": 1}),
        ("resnet8", {"CONV_2D": 9, "ADD": 3, "AVERAGE_POOL_2D": 1, "RESHAPE": 1, "FULLY_CONNECTED": 1,
                     "SOFTMAX": 1}),
        ("vww_mobilenet", {"CONV_2D": 14, "DEPTHWISE_CONV_2D": 13, "AVERAGE_POOL_2D": 1, "RESHAPE": 1,
                           "FULLY_CONNECTED": 1, "SOFTMAX": 1}),
        ("mobilenet_v1", {"CONV_2D": 15, "DEPTHWISE_CONV_2D": 13, "AVERAGE_POOL_2D": 1, "RESHAPE": 1,
                          "SOFTMAX": 1}),
        ("mobilenet_v2", {"CONV_2D": 35, "DEPTHWISE_CONV_2D": 17, "ADD": 10, "MEAN": 1, "FULLY_CONNECTED": 1,
                          "SOFTMAX": 1}),
        ("resnet18", {"PAD": 5, "CONV_2D": 20, "MAX_POOL_2D": 1, "ADD": 8, "MEAN": 1, "FULLY_CONNECTED": 1,
                      "SOFTMAX": 1}),
        ("resnet50", {"PAD": 5, "CONV_2D": 53, "MAX_POOL_2D": 1, "ADD": 16, "MEAN": 1, "FULLY_CONNECTED": 1,
                      "SOFTMAX": 1}),
    ],
)  # fmt: skip
def test_operators_are_those_of_the_topology(name: str, operators: dict[str, int]) -> None:
    assert Counter(row.code for row in rows_of(file_of(name))) == operators


# The files


@pytest.mark.parametrize("name", names())
def test_the_file_is_laid_out_as_the_schema_wants(name: str) -> None:
    data = file_of(name)
    model = tflite.Model.GetRootAs(data)
    assert data[4:8] == b"TFL3"
    assert model.Version() == 3
    assert model.Buffers(0).DataLength() == 0
    whole = np.frombuffer(data, np.uint8)
    for index in range(1, model.BuffersLength()):
        content = model.Buffers(index).DataAsNumpy()
        assert (content.ctypes.data - whole.ctypes.data) % 16 == 0, f"buffer {index}"


@pytest.mark.parametrize("name", names())
def test_quantization_follows_the_int8_specification(name: str) -> None:
    for row in rows_of(file_of(name)):
        if row.code not in CONVOLUTIONS:
            continue
        ifm, weights, bias = row.inputs
        scales = weights.Quantization().ScaleAsNumpy()
        assert weights.Quantization().QuantizedDimension() == (3 if row.code == "DEPTHWISE_CONV_2D" else 0)
        assert len(scales) == (1 if row.code == "FULLY_CONNECTED" else row.output_shape[-1])
        assert not weights.Quantization().ZeroPointAsNumpy().any()
        assert bias.Type() == tflite.TensorType.INT32
        expected = ifm.Quantization().ScaleAsNumpy().astype(float) * scales
        np.testing.assert_allclose(bias.Quantization().ScaleAsNumpy(), expected, rtol=1e-6)
    last = rows_of(file_of(name))[-1].output.Quantization()
    assert (last.Scale(0), last.ZeroPoint(0)) == (1 / 256, -128)


@pytest.mark.slow
def test_another_process_generates_the_same_bytes() -> None:
    script = "from npusim.models import topologies; from zlib import crc32; print(crc32(topologies.ds_cnn()))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    output = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert int(output.stdout) == crc32(file_of("ds_cnn"))


def test_importing_the_registry_imports_nothing_heavy() -> None:
    script = "import sys, npusim.models; print(*sorted(sys.modules))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    loaded = set(output.stdout.split())
    assert (
        loaded & {"tflite", "flatbuffers", "sklearn", "simpy", "pydantic", "difflib", "statistics"} == set()
    )


# Activations


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_activations_use_the_range_of_int8(name: str) -> None:
    interpreter, probabilities = run_litert(
        file_of(name), None if name in GENERATED else digits_test()[0][:1]
    )
    details = {row["index"]: row for row in interpreter.get_tensor_details()}
    examined = 0
    for operator in interpreter._get_ops_details():
        where = details[operator["outputs"][0]]["name"]
        codes = interpreter.get_tensor(operator["outputs"][0])
        if operator["op_name"] not in (*CONVOLUTIONS, "ADD") or codes.size < 500:
            continue
        examined += 1
        zero_point = details[operator["outputs"][0]]["quantization"][1]
        assert codes.std() > 10, where
        assert len(np.unique(codes)) > 50, where
        assert np.mean(codes == 127) < 0.03, where
        lowest = np.mean(codes == -128)
        assert lowest < (0.75 if zero_point == -128 else 0.03), where
        # After a relu, all 9 positions of a 3x3 image are 0 in some channels of healthy networks, too.
        if name in GENERATED and codes.ndim == 4 and prod(codes.shape[1:3]) > 9:
            dead = np.mean(codes.reshape(-1, codes.shape[-1]).std(axis=0) == 0)
            assert dead <= 0.05, where
    assert examined >= 5
    # Neither one class with certainty nor all alike.
    assert -100 < probabilities.max() <= 127


def test_propagated_moments_agree_with_a_float_forward_pass() -> None:
    network = RandomNetwork("check", seed=7)
    x = network.input((1, 48, 48, 16), -1.0, 1.0)
    signals = [stem := network.conv_2d(x, 64, (3, 3), "stem", activation="relu")]
    signals += [deep := network.depthwise_conv_2d(stem, (3, 3), "depthwise", activation="relu6", spread=1.5)]
    signals += [flat := network.conv_2d(deep, 64, (1, 1), "project")]
    signals += [total := network.add(stem, flat, "add", activation="relu")]
    signals += [logits := network.conv_2d(total, 32, (3, 3), "last")]
    data = network.finish(logits)

    values = np.random.default_rng(1).uniform(-1, 1, (1, 48, 48, 16)).astype(np.float32)
    real = {"stem": Relu().forward(float_layer(data, "stem").forward(values))}
    real["depthwise"] = np.clip(float_layer(data, "depthwise").forward(real["stem"]), 0, 6)
    real["project"] = float_layer(data, "project").forward(real["depthwise"])
    real["add"] = Relu().forward(real["stem"] + real["project"])
    real["last"] = float_layer(data, "last").forward(real["add"])
    for (name, y), signal in zip(real.items(), signals, strict=True):
        inner = y[:, 4:-4, 4:-4].reshape(-1, y.shape[-1])  # the propagation ignores padding
        mean, variance = signal.moments()
        assert inner.var(axis=0).mean() == pytest.approx(variance.mean(), rel=0.15), name
        # A bias that does not cancel the mean of its inputs would show here as errors of several deviations.
        assert np.sqrt(np.mean((inner.mean(axis=0) - mean) ** 2)) < 0.3 * np.sqrt(variance.mean()), name


def float_layer(data: bytes, name: str) -> Conv2D | DepthwiseConv2D:
    """The convolution of that name with its weights and bias as floats."""
    row = next(row for row in rows_of(data) if row.output.Name().decode() == name)
    model = tflite.Model.GetRootAs(data)
    rng = np.random.default_rng(0)
    layer: Conv2D | DepthwiseConv2D
    layer = DepthwiseConv2D(rng, 3, 1) if row.code == "DEPTHWISE_CONV_2D" else Conv2D(rng, 3, 1, 1)
    codes = [
        model.Buffers(t.Buffer()).DataAsNumpy().view(dtype).reshape(t.ShapeAsNumpy())
        for t, dtype in zip(row.inputs[1:], ("int8", "int32"), strict=True)
    ]
    layer.parameters = [
        c
        * (
            t.Quantization()
            .ScaleAsNumpy()
            .reshape((-1, 1, 1, 1) if row.code == "CONV_2D" and c.ndim > 1 else -1)
        )
        for c, t in zip(codes, row.inputs[1:], strict=True)
    ]
    return layer


# Digits


def test_quantized_digits_are_recognized() -> None:
    images, labels = digits_test()
    interpreter = litert(path_or_bytes("digits_cnn"))
    given, wanted = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    right = 0
    for image, label in zip(images, labels, strict=True):
        interpreter.set_tensor(given, image[None])
        interpreter.invoke()
        right += int(interpreter.get_tensor(wanted).argmax() == label)
    assert right / len(labels) >= 0.97


def test_the_digits_test_set_is_complete_and_small() -> None:
    images, labels = digits_test()
    assert (images.dtype.name, images.shape) == ("int8", (200, 8, 8, 1))
    assert (labels.dtype.name, labels.shape) == ("int64", (200,))
    assert set(labels.tolist()) == set(range(10))
    assert len(path_or_bytes("digits_cnn")) < 100_000


@pytest.mark.slow
def test_the_digits_test_set_is_what_training_holds_out() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn has the images and is not installed")
    images, labels, test_images, test_labels = digits.load_data()
    np.testing.assert_array_equal(digits.quantize_images(test_images), digits_test()[0])
    np.testing.assert_array_equal(test_labels, digits_test()[1])
    assert len(images) == len(labels) == 1797 - 200
    training = {image.tobytes() for image in images}
    assert not any(image.tobytes() in training for image in test_images)


def test_gradients_agree_with_differences() -> None:
    rng = np.random.default_rng(0)
    network = digits.DigitsNetwork(rng)
    for layer in network.layers:
        layer.parameters = [p.astype(np.float64) + 0.1 for p in layer.parameters]  # type: ignore[misc]
    images, labels = rng.random((6, 8, 8, 1)), np.arange(6)

    def loss() -> float:
        return cross_entropy(network.forward(images)["logits"], labels, 0.1)[0]  # type: ignore[arg-type]

    network.backward(cross_entropy(network.forward(images)["logits"], labels, 0.1)[1])  # type: ignore[arg-type]
    for layer in network.layers:
        for parameter, gradient in zip(layer.parameters, layer.gradients, strict=True):
            direction = rng.standard_normal(parameter.shape)
            before = parameter.copy()
            parameter[...] = before + 1e-6 * direction
            above = loss()
            parameter[...] = before - 1e-6 * direction
            slope = (above - loss()) / 2e-6
            parameter[...] = before
            assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-4, abs=1e-7)


@pytest.mark.slow
def test_the_training_script_writes_a_model_and_repeats_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn has the images and is not installed")
    for folder in ("a", "b"):
        assert digits.main(["--epochs", "1", "--output", str(tmp_path / folder)]) == 0
    assert "float accuracy on 200 test images: " in capsys.readouterr().out
    for file_name in ("digits_cnn.tflite", "digits_test.npz"):
        assert (tmp_path / "a" / file_name).read_bytes() == (tmp_path / "b" / file_name).read_bytes()
    _, probabilities = run_litert((tmp_path / "a" / "digits_cnn.tflite").read_bytes(), digits_test()[0][:1])
    assert probabilities.shape == (1, 10)


# Names


def test_names_are_resolved_and_mistyped_ones_recognized() -> None:
    assert names() == (
        "digits_cnn",
        "ds_cnn",
        "resnet8",
        "vww_mobilenet",
        "mobilenet_v1",
        "mobilenet_v2",
        "resnet18",
        "resnet50",
    )
    assert resolve("mobilenet") is None
    assert nearest("MobileNet-v2") == "mobilenet_v2"
    assert nearest("resnet-50") == "resnet50"
    assert nearest("/tmp/x.onnx") is None
    with pytest.raises(KeyError):
        path_or_bytes("mobilenet")


# The cache


def never() -> bytes:
    raise AssertionError("generated although it was cached")


def test_a_model_is_generated_once(cache_folder: Path) -> None:
    assert model_cache.cached("m", lambda: b"content") == b"content"
    assert model_cache.cached("m", never) == b"content"
    (stored,) = cache_folder.iterdir()
    assert stored.read_bytes() == b"content"


def test_a_damaged_cached_file_is_replaced(cache_folder: Path) -> None:
    model_cache.cached("m", lambda: b"content")
    (stored,) = cache_folder.iterdir()
    stored.write_bytes(b"conte")
    assert model_cache.cached("m", lambda: b"content") == b"content"
    assert stored.read_bytes() == b"content"


def test_another_model_under_the_right_name_is_not_used(cache_folder: Path) -> None:
    model_cache.cached("m", lambda: b"content")
    model_cache.cached("other", lambda: b"another")
    (stored,), (other,) = cache_folder.glob("m-*"), cache_folder.glob("other-*")
    # Its content, under its own checksum, or under checksums of the content alone as 0.1.0 had them.
    renamed = cache_folder / other.name.replace("other-", "m-")
    stored.unlink()
    other.rename(renamed)
    old = cache_folder / f"m-00000000-{crc32(b'another'):08x}.tflite"
    old.write_bytes(b"another")
    (cache_folder / f"m-{sha256(b'another').hexdigest()}.tflite").write_bytes(b"another")
    assert model_cache.cached("m", lambda: b"content") == b"content"
    assert list(cache_folder.iterdir()) == [stored]


def test_what_a_killed_process_left_goes(cache_folder: Path) -> None:
    model_cache.cached("m", lambda: b"content")
    (stored,) = cache_folder.iterdir()
    stored.rename(cache_folder / f".{stored.name}.{99}.partial")
    old = cache_folder / f"m-00000000-{1:08x}.tflite.7.partial"
    old.write_bytes(b"half")
    (cache_folder / "mine.7.partial").write_bytes(b"not ours")
    assert model_cache.cached("m", lambda: b"content") == b"content"
    assert sorted(path.name for path in cache_folder.iterdir()) == [stored.name, "mine.7.partial"]


def test_a_cache_that_holds_pipes_and_links_is_done_without(cache_folder: Path, tmp_path: Path) -> None:
    model_cache.cached("m", lambda: b"content")
    (stored,) = cache_folder.iterdir()
    stored.unlink()
    os.mkfifo(stored)
    assert model_cache.cached("m", lambda: b"content") == b"content"
    stored.unlink(missing_ok=True)
    (tmp_path / "mine").write_bytes(b"mine")
    stored.symlink_to(tmp_path / "mine")
    assert model_cache.cached("m", lambda: b"content") == b"content"
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_the_sources_of_the_generator_exist() -> None:
    """Without one of them, each process would generate its model again, in silence."""
    assert model_cache._generator() is not None


def test_a_changed_generator_replaces_what_its_predecessor_left(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_cache.cached("m", lambda: b"old")
    model_cache.cached("m_2", lambda: b"other model")
    monkeypatch.setattr(model_cache, "_generator", lambda: b"changed")
    assert model_cache.cached("m", lambda: b"new") == b"new"
    assert sorted(path.read_bytes() for path in cache_folder.iterdir()) == [b"new", b"other model"]


def test_without_sources_to_tell_versions_apart_nothing_is_kept(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_cache, "_generator", lambda: None)
    assert model_cache.cached("m", lambda: b"content") == b"content"
    assert not cache_folder.exists()


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("NPUSIM_CACHE_DIR", str(tmp_path / "file" / "folder"))
    assert model_cache.cached("m", lambda: b"content") == b"content"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"NPUSIM_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/npusim"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/c"}, "/c/.cache/npusim"),
        ({"NPUSIM_CACHE_DIR": "", "HOME": "/c"}, "/c/.cache/npusim"),
    ],
)
def test_where_models_are_kept(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NPUSIM_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert model_cache.cache_folder() == Path(folder)


# The writer


def write_every_operator() -> bytes:
    writer = ModelWriter("all")
    rng = np.random.default_rng(0)
    half = per_tensor(0.05, -3)
    x = writer.input("x", TensorType("int8", (2, 9, 7, 4), half))

    def weights(*shape: int, axis: int | None) -> int:
        scales = per_tensor(0.01, 0) if axis is None else per_channel([0.01] * shape[axis], axis)
        return writer.constant(f"weights{shape}", rng.integers(-127, 128, shape, np.int8), scales)

    def bias(channels: int) -> int:
        scales = per_channel([0.05 * 0.01] * channels, 0)
        return writer.constant(f"bias{channels}", np.arange(channels, dtype=np.int32), scales)

    a = writer.conv_2d(x, weights(6, 3, 3, 4, axis=0), bias(6), half, strides=(2, 1), activation="relu6")
    a = writer.conv_2d(a, weights(4, 3, 2, 6, axis=0), bias(4), half, dilations=(2, 3), activation="relu")
    a = writer.depthwise_conv_2d(a, weights(1, 2, 2, 8, axis=3), None, half, padding="valid")
    a = writer.pad(a, ((0, 0), (1, 2), (0, 1), (0, 0)))
    a = writer.max_pool_2d(a, (3, 2), strides=(2, 1), padding="same")
    a = writer.average_pool_2d(a, (2, 2), activation="relu_n1_to_1")
    scale = writer.constant("row", rng.integers(-128, 128, (8,), np.int8), half)
    a = writer.sub(writer.mul(writer.add(a, scale, half), a, half), scale, half)
    a = writer.concatenation([a, a], 3)
    a = writer.unary("RELU", writer.unary("LOGISTIC", a, per_tensor(1 / 256, -128)), half)
    b = writer.mean(a, (1, 2), half, keep_dims=True)
    b = writer.reshape(b, (2, 16))
    b = writer.fully_connected(b, weights(5, 16, axis=None), None, half, activation="relu")
    b = writer.fully_connected(b, weights(3, 5, axis=0), None, half, keep_num_dims=True)
    return writer.finish([writer.softmax(b, beta=0.5), writer.mean(a, (1,), half)])


def test_litert_finds_the_shapes_that_the_writer_inferred() -> None:
    data = write_every_operator()
    interpreter, probabilities = run_litert(data)
    details = {row["index"]: row for row in interpreter.get_tensor_details()}
    operators = interpreter._get_ops_details()
    for operator, row in zip(operators, rows_of(data), strict=True):
        assert tuple(details[operator["outputs"][0]]["shape"]) == row.output_shape, row.code
    assert probabilities.shape == (2, 3)
    assert data == write_every_operator()


def test_the_writer_refuses_what_does_not_fit() -> None:
    writer = ModelWriter("m")
    half = Quantization((0.5,), (0,))
    x = writer.input("x", TensorType("int8", (1, 4, 4, 3), half))
    weights = writer.constant("w", np.zeros((8, 5, 5, 4), np.int8), per_channel([1.0] * 8, 0))
    with pytest.raises(GraphError, match=r"conv_2d \(operator 0 of 'm'\): weights for 4 input channels"):
        writer.conv_2d(x, weights, x, half)
    with pytest.raises(GraphError, match=r"a filter of \(5, 5\) with dilations \(1, 1\) does not fit"):
        writer.average_pool_2d(x, (5, 5))
    with pytest.raises(GraphError, match=r"reshape .*: 49 elements in \(7, 7\)"):
        writer.reshape(x, (7, 7))


@pytest.mark.parametrize(
    ("low", "high", "zero_point"), [(0.0, 6.0, -128), (-1.0, 1.0, 0), (2.0, 6.0, -128), (-3.0, -1.0, 127)]
)
def test_affine_quantization_represents_zero(low: float, high: float, zero_point: int) -> None:
    quantization = affine(low, high)
    assert quantization.zero_point == zero_point
    assert quantization.scale == np.float32(quantization.scale)
    assert quantization.scale * (127 - zero_point) == pytest.approx(max(high, 0), abs=quantization.scale)
