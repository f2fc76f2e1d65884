"""Drivers: those of users, `fake_device` with its trace, `builtin_device` with its arithmetic, simulated ones alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from npusim import nnadapter as nna
from npusim.nnadapter.hal import registry, simulated
from npusim.nnadapter.hal.caller_memory import Slot, of_array
from npusim.nnadapter.hal.fake import Fake
from tests.npusim.nnadapter import operations

DATA = np.array([[1, -2, 3], [4, -5, 6]], np.float32)


def chain(*names: str) -> nna.Model:
    """Functions of one tensor, float32 [2, 3], one behind the other."""
    model = nna.Model()
    first = last = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    for name in names:
        last = getattr(model, name)(last)
    model.identify([first], [last])
    model.finish()
    return model


def computed(model: nna.Model, context: nna.Context, data: Any = DATA) -> nna.Result:
    """The result of one run."""
    compilation = nna.Compilation(model, context)
    compilation.finish()
    execution = nna.Execution(compilation)
    execution.set_input(0, data)
    return execution.compute()


class Doubler(nna.Driver):
    """It computes ABS, doubled, in numpy, and says that it takes 3 us."""

    name, vendor, version = "doubler", "me", 7
    keys: ClassVar[dict[str, Any]] = {"DOUBLER_FACTOR": float}
    says: ClassVar[float | None] = 3.0

    def create_context(self, device: object, properties: nna.Properties, callback: Any) -> float:
        return float(properties.get("DOUBLER_FACTOR", 2))

    def validate_program(self, context: float, model: nna.Submodel) -> list[str | None]:
        return [None if one.kind == "abs" else f"{one.kind} is not abs" for one in model.operations]

    def create_program(self, context: object, model: nna.Submodel | None, cache: nna.Cache) -> object:
        assert model is not None
        assert [one.kind for one in model.operations] == ["abs"]
        return context

    def execute_program(self, program: Any, inputs: Any, outputs: Any) -> float | None:
        outputs[0].write(np.abs(inputs[0].read()) * np.float32(program))
        return self.says


@pytest.fixture
def doubler() -> Iterator[nna.Device]:
    nna.register(Doubler)
    yield nna.Device.acquire("doubler")
    nna.unregister("doubler")


def test_what_a_user_s_device_says_of_itself(doubler: nna.Device) -> None:
    assert (doubler.name, doubler.vendor, doubler.type, doubler.version) == (
        "doubler",
        "me",
        nna.ACCELERATOR,
        7,
    )
    assert "doubler" in nna.devices()


def test_a_user_s_device_computes_its_piece_at_its_turn(doubler: nna.Device) -> None:
    host = nna.Device.acquire("npusim_host")
    with nna.Context([doubler, host], "DOUBLER_FACTOR=4") as context:
        result = computed(chain("relu", "abs", "relu"), context)
    assert np.array_equal(result.outputs[0], 4 * np.maximum(DATA, 0))
    assert [piece.device for piece in result.pieces] == ["npusim_host", "doubler", "npusim_host"]
    first, mine, last = result.pieces
    assert mine.cycles is None
    assert first.cycles == last.cycles
    assert first.cycles is not None
    assert result.cycles == 2 * first.cycles
    assert result.run is not None
    assert result.latency == pytest.approx(result.run.latency_ms + 0.003)
    assert result.not_simulated == ()


def test_a_user_s_device_that_does_not_say_how_long_it_takes(
    doubler: nna.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Doubler, "says", None)
    with nna.Context([doubler]) as context:
        result = computed(chain("abs"), context)
    assert result.not_simulated == ("doubler",)
    assert result.run is None
    assert result.cycles == 0
    with pytest.raises(nna.InvalidParameter, match="no device of this run is simulated"):
        result.report("run.html")


def test_an_operation_that_no_device_can_do_names_the_reason_of_each(doubler: nna.Device) -> None:
    model = chain("abs", "relu")
    with nna.Context([doubler]) as context:
        supported = model.supported_operations(context)
        assert supported == [True, False]
        assert supported.reasons == [{}, {"doubler": "relu is not abs"}]
        with pytest.raises(
            nna.FeatureNotSupported, match=r"operations\[1\] \(RELU\).*doubler: relu is not abs"
        ):
            nna.Compilation(model, context).finish()


class Silent(nna.Driver):
    """A device of which nobody knows what it can do: it copies."""

    name, vendor = "silent", "me"

    def create_program(self, context: object, model: nna.Submodel | None, cache: nna.Cache) -> object:
        return model

    def execute_program(self, program: Any, inputs: Any, outputs: Any) -> None:
        outputs[0].write(inputs[0].read())


@pytest.fixture
def silent() -> Iterator[type[Silent]]:
    yield nna.register(Silent)
    nna.unregister("silent")


def test_a_driver_without_validate_program(silent: type[Silent]) -> None:
    with (
        nna.Context([nna.Device.acquire("silent")]) as context,
        pytest.raises(nna.FeatureNotSupported, match="silent: its driver has no validate_program"),
    ):
        chain("abs").supported_operations(context)


FAULTS = {
    "create_context": nna.DeviceInternalError,
    "validate_program": nna.DeviceInternalError,
    "create_program": nna.DeviceInternalError,
    "execute_program": nna.DeviceInternalError,
    "open": nna.DeviceNotFound,
}


@pytest.mark.parametrize("method", FAULTS)
def test_a_driver_that_fails(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of order")

    failing = type("Failing", (Doubler,), {"name": "failing", method: fail})
    nna.register(failing)
    try:
        with pytest.raises(FAULTS[method], match=r"failing.*RuntimeError: out of order"):
            computed(chain("abs"), nna.Context([nna.Device.acquire("failing")]))
    finally:
        nna.unregister("failing")


def test_a_driver_that_writes_nothing_or_the_wrong_shape() -> None:
    for wrong, fault in (
        (lambda *_: None, "wrote nothing to operands.1."),
        (lambda _, __, outputs: outputs[0].write(np.zeros(2, np.float32)), r"wrote \[2\] to"),
        (lambda _, __, outputs: outputs[0].write(DATA) or "long", "returns 'long', must be microseconds"),
    ):
        method = wrong
        nna.register(
            type(
                "Wrong", (Doubler,), {"name": "wrong", "execute_program": lambda _, *rest, m=method: m(*rest)}
            )
        )
        try:
            with pytest.raises(nna.NNAdapterError, match=fault):
                computed(chain("abs"), nna.Context([nna.Device.acquire("wrong")]))
        finally:
            nna.unregister("wrong")


# fmt: off
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name: is '', must be up to 64 letters"),
    ({"name": "a b"}, "name: is 'a b'"),
    ({"name": 5}, "name: is 5"),
    ({"name": "npusim"}, "npusim: a device of this name is registered already"),
    ({"vendor": None}, "vendor must be a text"),
    ({"type": 9}, "type is 9, must be CPU, GPU or ACCELERATOR"),
    ({"version": "1"}, "version is '1', must be a whole number"),
    ({"keys": {"A": 5}}, "keys must map"),
    ({"create_program": None}, "has no create_program"),
    ({"destroy_context": 5}, "has no destroy_context"),
]
# fmt: on


@pytest.mark.parametrize(("members", "sentence"), UNFIT)
def test_classes_that_are_no_drivers(members: dict[str, Any], sentence: str) -> None:
    before = nna.devices()
    with pytest.raises(nna.InvalidParameter, match=sentence):
        nna.register(type("Unfit", (Doubler,), {"name": "unfit"} | members))
    with pytest.raises(nna.InvalidParameter, match="must be a class"):
        nna.register(Doubler())  # type: ignore[type-var]
    with pytest.raises(nna.InvalidParameter, match="has no create_program"):
        nna.register(type("Bare", (nna.Driver,), {"name": "bare", "vendor": "me"}))
    assert nna.devices() == before


def test_a_class_that_is_no_subclass_of_driver() -> None:
    members = {name: lambda *_: None for name in registry.MEMBERS}
    plain = {"name": "plain", "vendor": "me", "type": nna.GPU, "version": 1}
    nna.register(type("Plain", (), plain | members))
    try:
        assert nna.Device.acquire("plain").type is nna.GPU
    finally:
        nna.unregister("plain")


def test_hardware_under_a_name(tmp_path: Any) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text('extends = "edge-32"\nclock_mhz = 100.0\n')
    nna.register_preset("tiny", file)
    try:
        with nna.Context([nna.Device.acquire("tiny")]) as context:
            assert context.cores[0].machine is not None
            assert context.cores[0].machine.clock_mhz == 100
            assert np.array_equal(computed(chain("relu"), context).outputs[0], np.maximum(DATA, 0))
        with pytest.raises(nna.InvalidParameter, match="tiny: a device of this name"):
            nna.register_preset("tiny", "edge-64")
    finally:
        nna.unregister("tiny")
    with pytest.raises(nna.DeviceNotFound, match=r"tiny.: is no device that was registered"):
        nna.unregister("tiny")


# fake_device


def test_the_runtime_calls_a_driver_in_the_order_of_the_document() -> None:
    fake = nna.Device.acquire("fake_device")
    assert Fake.trace.count("open") == 1
    begin = len(Fake.trace)
    context = nna.Context([fake], "NPUSIM_PARTITION=order")
    compilation = nna.Compilation(chain("relu", "abs"), context)
    compilation.finish()
    for _ in range(2):
        execution = nna.Execution(compilation)
        execution.set_input(0, DATA)
        assert not execution.compute().outputs[0].any()
        execution.destroy()
    context.destroy()
    fake.release()
    assert Fake.trace[begin:] == [
        "create_context NPUSIM_PARTITION=order",
        "validate_program relu abs",
        "create_program relu abs",
        "execute_program 1 inputs 1 outputs",
        "execute_program 1 inputs 1 outputs",
        "destroy_program",
        "destroy_context",
    ]
    assert Fake.trace.count("open") == 1


@pytest.mark.slow
def test_the_device_is_closed_when_the_process_ends() -> None:
    import subprocess
    import sys

    code = (
        "from npusim import nnadapter as nna\n"
        "from npusim.nnadapter.hal.fake import Fake\n"
        "import atexit\n"
        "atexit.register(lambda: None)\n"
        "nna.Device.acquire('fake_device')\n"
        "Fake.close = lambda self, device: print('close', device is self)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "close True\n"


# builtin_device


def test_builtin_device_has_the_32_operations_of_the_document() -> None:
    assert len(set(simulated.OPERATIONS)) == 32
    device = nna.Device.acquire("builtin_device")
    assert (device.vendor, device.type, device.version) == ("Paddle", nna.CPU, 1)
    model = chain("relu", "sigmoid")
    with nna.Context([device], "BUILTIN_DEVICE_NUM_THREADS=2") as context:
        assert context.cores[0].machine is not None
        assert context.cores[0].machine.host.threads == 2
        supported = model.supported_operations(context)
    assert supported == [True, False]
    assert supported.reasons[1]["builtin_device"] == (
        "sigmoid is none of the 32 operations of builtin_device"
    )


@pytest.mark.parametrize("seed", range(4))
def test_builtin_device_cuts_results_off_towards_zero(seed: int) -> None:
    generator = np.random.default_rng(seed)
    scales = [float(np.float32(scale)) for scale in generator.uniform(0.01, 0.2, 3)]
    codes = [generator.integers(-128, 128, (4, 25)).astype(np.int8) for _ in range(2)]
    model = nna.Model()
    a, b, y = (
        model.add_operand(nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, [4, 25], scale=scale))
        for scale in scales
    )
    none = model.add_constant(np.array([nna.FUSED_NONE], np.int32))
    model.add_operation(nna.ADD, [a, b, none], [y])
    model.identify([a, b], [y])
    model.finish()
    results = {}
    for name in ("builtin_device", "npusim"):
        with nna.Context([nna.Device.acquire(name)]) as context:
            compilation = nna.Compilation(model, context)
            compilation.finish()
            execution = nna.Execution(compilation)
            for index, array in enumerate(codes):
                execution.set_input(index, array)
            results[name] = execution.compute().outputs[0]
    # Checklist 4.10: real values, divided by the scale, cut off toward zero, clamped to -127..127.
    real = codes[0] * np.float32(scales[0]) + codes[1] * np.float32(scales[1])
    wanted = np.clip(np.trunc(real / np.float32(scales[2])), -127, 127).astype(np.int8)
    assert np.array_equal(results["builtin_device"], wanted)
    assert not np.array_equal(results["npusim"], wanted)  # it rounds, and -128 is a code


@pytest.mark.slow
def test_builtin_device_on_the_operation_cases(shared: Path) -> None:
    tried = 0
    for case in operations.cases(shared).values():
        if case.operation.lower() not in simulated.OPERATIONS:
            continue
        tried += 1
        coded = any("QUANT" in operand["precision"] for operand in case.operands)
        if not coded:
            assert operations.fault(case, "builtin_device") == ""
            continue
        made = operations.built(case)
        with nna.Context([nna.Device.acquire("builtin_device")]) as context:
            compilation = nna.Compilation(made.model, context)
            compilation.finish()
            execution = nna.Execution(compilation)
            for index, array in enumerate(made.given):
                execution.set_input(index, array)
            outputs = execution.compute().outputs
        for got, wanted in zip(outputs, made.expected, strict=True):
            assert np.abs(got.astype(int) - wanted).max() <= 1, case.id  # cut off, not rounded
    assert tried == 127


# Simulated drivers, called by hand


def test_execute_program_of_a_simulated_driver() -> None:
    device = nna.Device.acquire("npusim")
    driver = device.opened.driver
    context = driver.create_context(device.opened.device, nna.Properties(), None)
    network = chain("relu").network()
    program = driver.create_program(context, nna.Submodel.whole(network), nna.Cache())
    kind = nna.OperandType(nna.FLOAT32, [2, 3])
    slot = Slot()
    took = driver.execute_program(
        program, [nna.Argument(0, DATA, of_array, kind)], [nna.Argument(0, slot, slot.access, kind)]
    )
    assert np.array_equal(slot.array, np.maximum(DATA, 0))
    assert took > 0
    with pytest.raises(nna.InvalidParameter, match="1 inputs and 0 outputs, the program has 1 and 1"):
        driver.execute_program(program, [nna.Argument(0, DATA, of_array, kind)], [])
    other = nna.Argument(0, DATA.reshape(-1), of_array, kind)
    with pytest.raises(nna.InvalidDimensions, match=r"is \[6\], must be \[2, 3\]"):
        driver.execute_program(program, [other], [nna.Argument(0, slot, slot.access, kind)])


def test_create_program_without_model_and_cache() -> None:
    driver = nna.Device.acquire("npusim").opened.driver
    context = driver.create_context(None, nna.Properties(), None)
    with pytest.raises(nna.InvalidParameter, match="neither a model nor a cache"):
        driver.create_program(context, None, nna.Cache())
