"""What a framework says: settings and environment, operations that keep float, shapes of models that were read."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim import hal
from npusim import nnadapter as nna
from npusim.kernels.graph.placing import PartitionWarning
from npusim.nnadapter.hal import events
from tests.npusim.hal.hal_models import Maker


@pytest.fixture
def open_file(tmp_path: Path) -> Path:
    """A .hal file: relu of float32 [?, 3], whose input is called operands[0]."""
    maker = Maker()
    kind = hal.OperandType.TENSOR_FLOAT32
    x, y = maker.input(kind, [0, 3]), maker.output(kind, [0, 3])
    maker.operation(hal.OperationType.RELU, [x], [y])
    model = maker.model(hal.HalVersion.V1_2)
    hal.save(model, tmp_path / "open.hal")
    return tmp_path / "open.hal"


def coded_model(names: tuple[str, ...] = ("relu", "abs")) -> nna.Model:
    """Functions of int8 codes [4, 8], one behind the other."""
    model = nna.Model()
    first = last = model.add_operand(
        nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, [4, 8], scale=0.05), "image"
    )
    for name in names:
        last = getattr(model, name)(last)
    model.identify([first], [last])
    model.finish()
    return model


CODES = np.random.default_rng(1).integers(-128, 128, (4, 8)).astype(np.int8)


def run(compilation: nna.Compilation, *data: Any) -> nna.Result:
    """One run with data."""
    execution = nna.Execution(compilation)
    for index, array in enumerate(data):
        execution.set_input(index, array)
    return execution.compute()


@pytest.fixture
def config() -> nna.Config:
    """Settings with devices."""
    made = nna.Config()
    made.set_nnadapter_device_names(["npusim", "npusim_host"])
    return made


def test_names_of_devices() -> None:
    assert nna.check_nnadapter_device_name("npusim")
    assert nna.Config().check_nnadapter_device_name("edge-64")
    assert not nna.check_nnadapter_device_name("npusim2")
    assert not nna.check_nnadapter_device_name("")
    assert not nna.check_nnadapter_device_name(5)  # type: ignore[arg-type]


def test_devices_in_their_order(config: nna.Config) -> None:
    assert config.compile(coded_model()).context.devices == ["npusim", "npusim_host"]
    config.set_nnadapter_device_names(["npusim_host"])
    assert [piece.device for piece in config.compile(coded_model()).pieces] == ["npusim_host"]
    with pytest.raises(nna.InvalidParameter, match="must be a list of one name or more"):
        config.set_nnadapter_device_names([])
    with pytest.raises(nna.InvalidParameter, match="device names: are not set"):
        nna.Config().compile(coded_model())


def test_properties_and_callback(config: nna.Config) -> None:
    config.set_nnadapter_context_properties("NPUSIM_CLOCK_MHZ=100;")
    told: list[tuple[int, str]] = []
    config.set_nnadapter_context_callback(lambda event, device: told.append((event, device)))
    machine = config.compile(coded_model()).context.cores[0].machine
    assert machine is not None
    assert machine.clock_mhz == 100
    assert not told
    run(config.compile(coded_model()), CODES)
    assert told == [(nna.RUN_BEGINS, "npusim"), (nna.RUN_ENDS, "npusim")]
    with pytest.raises(nna.InvalidParameter, match="section 'A'"):
        config.set_nnadapter_context_properties("A")
    with pytest.raises(nna.InvalidParameter, match="must be a function or None"):
        config.set_nnadapter_context_callback(5)  # type: ignore[arg-type]


def test_a_callback_that_fails_ends_the_run(config: nna.Config) -> None:
    def failing(event: int, device: str) -> int:
        return 3 if event == nna.RUN_ENDS else 0

    def raising(event: int, device: str) -> int:
        raise ValueError("no stream")

    for callback, sentence in (
        (failing, "npusim: callback returns 3 for RUN_ENDS, must be 0"),
        (raising, "npusim: callback: ValueError: no stream"),
    ):
        config.set_nnadapter_context_callback(callback)
        with pytest.raises(nna.DeviceInternalError, match=sentence):
            run(config.compile(coded_model()), CODES)


def test_cache_folder_and_buffer(config: nna.Config, tmp_path: Path) -> None:
    config.set_nnadapter_model_cache_dir(tmp_path)
    first = config.compile(coded_model())
    assert not first.restored
    assert first.cache_path is not None
    assert config.compile(coded_model()).restored
    data = first.cache_path.read_bytes()
    again = nna.Config()
    again.set_nnadapter_device_names(["npusim", "npusim_host"])
    assert first.token is not None
    again.set_nnadapter_model_cache_buffers(first.token, data)
    restored = again.compile(coded_model())
    assert restored.restored
    assert np.array_equal(run(restored, CODES).outputs[0], run(first, CODES).outputs[0])


def devices_of(compilation: nna.Compilation) -> list[tuple[str, tuple[str, ...]]]:
    """Devices and operations of the pieces."""
    return [(piece.device, piece.operations) for piece in compilation.pieces]


def test_partition_file_and_text(config: nna.Config, tmp_path: Path) -> None:
    file = tmp_path / "partition.txt"
    file.write_text("abs\n")
    on_host = [("npusim", ("operations[0]",)), ("npusim_host", ("operations[1]",))]
    config.set_nnadapter_subgraph_partition_config_path(file)
    assert devices_of(config.compile(coded_model())) == on_host
    config.set_nnadapter_subgraph_partition_config_buffer("relu:image")
    assert devices_of(config.compile(coded_model()))[0] == ("npusim_host", ("operations[0]",))


@pytest.mark.parametrize("way", ["FILE", "BUFFER"])
def test_partition_of_the_environment(
    way: str, config: nna.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "partition.txt"
    file.write_text("abs\n")
    monkeypatch.setenv(f"SUBGRAPH_PARTITION_CONFIG_{way}", str(file) if way == "FILE" else "abs")
    assert devices_of(config.compile(coded_model()))[1] == ("npusim_host", ("operations[1]",))
    config.set_nnadapter_subgraph_partition_config_buffer("relu")  # both are forced
    assert devices_of(config.compile(coded_model())) == [("npusim_host", ("operations[0]", "operations[1]"))]


@pytest.mark.parametrize("partition", [None, "order", "cost", ["order"], nna.Partition()])
def test_the_environment_forces_whatever_else_is_asked(
    partition: Any, config: nna.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_PARTITION_CONFIG_BUFFER", "abs")
    compilation = nna.Compilation(coded_model(), config.context(), partition=partition)
    compilation.finish()
    assert ("npusim_host", ("operations[1]",)) in devices_of(compilation)


@pytest.mark.parametrize("said", ["setting", "environment"])
def test_operations_that_keep_float(
    said: str, config: nna.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = config.compile(coded_model(("sigmoid",)))
    if said == "setting":
        config.set_nnadapter_mixed_precision_quantization_config_buffer("sigmoid")
    else:
        monkeypatch.setenv("MIXED_PRECISION_QUANTIZATION_CONFIG_BUFFER", "sigmoid")
    compilation = config.compile(coded_model(("sigmoid",)))
    assert compilation.token != plain.token
    result = run(compilation, CODES)
    # Real numbers, rounded to codes of scale 0.05 at the end: not the look-up of codes.
    real = 1 / (1 + np.exp(-CODES.astype(np.float32) * np.float32(0.05)))
    wanted = np.clip(np.round(real / np.float32(0.05)), -128, 127).astype(np.int8)
    assert np.array_equal(result.outputs[0], wanted)
    assert result.run is not None
    assert [layer.op for layer in result.run.program.layers] == ["dequantize", "logistic", "quantize"]


def test_operations_that_keep_float_in_a_model_that_was_read() -> None:
    model = nna.from_file("digits_cnn")
    with nna.Context([nna.Device.acquire("npusim")]) as context:
        plain = nna.Compilation(model, context)
        floating = nna.Compilation(model, context, in_float=nna.Partition.parse("conv_2d"))
        for compilation in (plain, floating):
            compilation.finish()
        data = np.random.default_rng(0).integers(0, 128, plain.inputs[0].shape).astype(np.int8)
        results = [run(compilation, data) for compilation in (plain, floating)]
    first, second = (result.outputs[0].astype(int) for result in results)
    assert np.abs(first - second).max() <= 4  # other roundings
    assert results[1].cycles > results[0].cycles  # real numbers are the host's


def test_a_line_that_takes_nothing_is_a_warning(config: nna.Config) -> None:
    config.set_nnadapter_mixed_precision_quantization_config_buffer("sigmiod")
    with pytest.warns(PartitionWarning, match="sigmiod"):
        config.compile(coded_model())


def test_dynamic_shapes_of_a_built_model(config: nna.Config) -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [-1, 3]), "image")
    model.identify([x], [model.relu(x)])  # type: ignore[list-item]
    model.finish()
    config.set_nnadapter_dynamic_shape_info({"image": [[1, 3], [4, 3]]})
    compilation = config.compile(model)
    assert [gear.shapes for gear in compilation.gears] == [((1, 3),), ((4, 3),)]
    assert run(compilation, np.ones((4, 3), np.float32)).outputs[0].shape == (4, 3)
    for shapes, fault in (
        ({"imago": [[1, 3]]}, "imago: no input with open sizes has this name, did you mean image"),
        ({"image": [[1, 4]]}, r"image.dynamic\[0\]: is \[1, 4\], must fit \[-1, 3\]"),
    ):
        config.set_nnadapter_dynamic_shape_info(shapes)
        with pytest.raises(nna.InvalidParameter, match=fault):
            config.compile(model)


def test_dynamic_shapes_of_a_model_that_was_read(open_file: Path, tmp_path: Path) -> None:
    model = nna.from_file(open_file, dynamic={"operands[0]": [[2, 3], [5, 3], [2, 3]]})
    with nna.Context([nna.Device.acquire("npusim")]) as context:
        tokens = set()
        for _ in range(2):
            compilation = nna.Compilation(model, context, cache_dir=tmp_path)
            compilation.finish()
            tokens.add(compilation.token)
            assert compilation.inputs[0].dynamic == ((2, 3), (5, 3))
            assert compilation.inputs[0].dimensions == compilation.outputs[0].dimensions == [-1, 3]
            for rows in (2, 5):
                assert run(compilation, -np.ones((rows, 3), np.float32)).outputs[0].shape == (rows, 3)
            with pytest.raises(
                nna.InvalidDimensions, match=r"has shape \[3, 3\], must have \[2, 3\] or \[5, 3\]"
            ):
                run(compilation, np.ones((3, 3), np.float32))
        assert compilation.restored
        other = nna.Compilation(nna.from_file(open_file, dynamic={"operands[0]": [[2, 3], [6, 3]]}), context)
        assert other.token not in tokens


@pytest.mark.parametrize(
    ("dynamic", "fault"),
    [
        ({"operands[0]": []}, nna.InvalidDimensions),
        ({"picture": [[1, 3]]}, nna.InvalidParameter),
        ({"operands[0]": [[1, 4]]}, nna.InvalidParameter),
    ],
)
def test_shapes_that_a_model_that_was_read_cannot_have(
    dynamic: dict[str, Any], fault: type[Exception], open_file: Path
) -> None:
    with pytest.raises(fault):
        nna.from_file(open_file, dynamic=dynamic)


def test_a_file_that_is_not_there() -> None:
    for read in (nna.from_tflite, nna.from_onnx, nna.from_nnef):
        with pytest.raises(nna.InvalidParameter, match=r"absent\.net: no such file"):
            read("absent.net")


def test_a_document_of_nnef_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "net.nnef").write_text(
        "version 1.0;\ngraph net( x ) -> ( y )\n{ x = external(shape = [0,4,8,8]); y = relu(x); }\n"
    )
    context = nna.Context([nna.Device.acquire("npusim")])
    compilation = nna.Compilation(nna.from_nnef(tmp_path / "net.nnef", {"x": (1, 4, 8, 8)}), context)
    compilation.finish()
    execution = nna.Execution(compilation)
    image = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 4, 8, 8)
    execution.set_input(0, image)
    assert np.array_equal(execution.compute().outputs[0], np.maximum(image, 0))
    text = (tmp_path / "net.nnef").read_text()
    (tmp_path / "net.nnef").write_text(text.replace("[0,4,8,8]", "[1,0,8,8]"))
    with pytest.raises(
        nna.InvalidParameter, match=r'input "x": has shape \[1, -1, 8, 8\] with an unknown size'
    ):
        nna.from_nnef(tmp_path / "net.nnef")


def test_properties_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUSIM_MACS", "256")
    device = nna.Device.acquire("npusim")
    for text, macs in (("", 256), ("NPUSIM_MACS=512", 512), ("EDGE_64_MACS=32", 256)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine = nna.Context([device], text).cores[0].machine
        assert machine is not None
        assert machine.macs_per_cycle == macs


def test_multipliers_of_blocks_are_no_columns() -> None:
    device = nna.Device.acquire("ethos-u55-128")
    with pytest.raises(
        nna.InvalidParameter, match="ethos-u55-128: an array of the kind block has no columns"
    ):
        nna.Context([device], "ETHOS_U55_128_MACS=256")


def test_a_key_that_no_device_knows_is_a_warning() -> None:
    device = nna.Device.acquire("npusim")
    with pytest.warns(
        nna.PropertyWarning, match="NPUSIM_MAC: no device of the context knows this key; did you mean"
    ):
        nna.Context([device], "NPUSIM_MAC=256")
    with pytest.warns(nna.PropertyWarning, match="NPUSIM_MACS is said twice; 256 is taken, not 128"):
        nna.Context([device], "NPUSIM_MACS=128;NPUSIM_MACS=256")


def test_each_device_has_keys_of_its_own() -> None:
    devices = [nna.Device.acquire(name) for name in ("npusim", "edge-64")]
    with nna.Context(
        devices, "NPUSIM_CLOCK_MHZ=400; EDGE_64_CLOCK_MHZ = 200 ;EDGE_64_LACKS_OPERATORS=abs,add;"
    ) as context:
        first, second = (member.machine for member in context.cores)
    assert first is not None
    assert second is not None
    assert (first.clock_mhz, second.clock_mhz) == (400, 200)
    assert (first.lacks_operators, second.lacks_operators) == ((), ("abs", "add"))
    assert first.dram == second.dram


def test_events_are_said_for_who_asks(
    config: nna.Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "npusim.nnadapter"):
        config.compile(coded_model())
        assert caplog.messages == []
        monkeypatch.setenv("GLOG_v", "5")
        run(config.compile(coded_model()), CODES)
    said = "\n".join(caplog.messages)
    for line in (
        "context: npusim, npusim_host; no properties",
        "model: npusim 2",
        "subgraph operators:\nrelu:image:operands[1]\n",
        "subgraph clusters: 1\ndigraph G {",
        "run: <Result: 1 outputs, ",
    ):
        assert line in said


@pytest.mark.parametrize(("text", "level"), [("", 0), ("3", 3), ("many", 0), ("-1", 0), ("99999", 0)])
def test_levels_of_events(text: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOG_v", text)
    assert events.verbosity() == level
