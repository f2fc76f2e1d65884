"""The `.hal` file: what is saved is loaded, damage is refused, and a file runs as its model does."""

from __future__ import annotations

import json
import random
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import npusim
import npusim.hal as hal
from npusim.frontends.nn_hal.hal_file import MAGIC, loads
from npusim.isa.base.errors import FormatError, NpusimError
from npusim.isa.base.plain_values import to_json
from npusim.isa.base.sections import Sections

from ...damage import DAMAGES, Damage
from .hal_models import Maker, addition, branches, convolution, hashes, loop, request_of
from .test_random import of_seed

FILE = Sections("a file", MAGIC, 1, ("model", "operandValues", "pools"), FormatError, "")


def parts(model: hal.Model) -> tuple[object, ...]:
    """Everything of a model, its memory as bytes."""
    graph = (model.operands, model.operations, model.inputIndexes, model.outputIndexes, model.referenced)
    memory = (bytes(model.operandValues), [bytes(pool) for pool in model.pools])
    return (*graph, *memory, model.version, model.relaxComputationFloat32toFloat16)


@pytest.mark.parametrize("make", [addition, convolution, branches, loop, hashes])
def test_what_is_saved_is_loaded(make: Callable[[], hal.Model], tmp_path: Path) -> None:
    model = make()
    model.relaxComputationFloat32toFloat16 = model.version >= hal.HalVersion.V1_1
    hal.save(model, tmp_path / "a.hal")
    loaded = hal.load(tmp_path / "a.hal")
    assert parts(loaded) == parts(model)
    hal.save(loaded, tmp_path / "b.hal")
    assert (tmp_path / "a.hal").read_bytes() == (tmp_path / "b.hal").read_bytes()


def test_pools_of_any_kind_are_saved(tmp_path: Path) -> None:
    model = addition()
    model.pools = [np.frombuffer(bytes(model.pools[0]), np.int16), memoryview(b"xyz"), b""]
    hal.save(model, tmp_path / "a.hal")
    pools = hal.load(tmp_path / "a.hal").pools
    assert [bytes(pool) for pool in pools] == [bytes(addition().pools[0]), b"xyz", b""]
    assert all(pool.readonly for pool in pools)


def test_a_model_that_breaks_a_rule_is_not_saved(tmp_path: Path) -> None:
    model = addition()
    model.operands[3].numberOfConsumers = 2
    with pytest.raises(hal.HalError, match=r"^operands\[3\]\.numberOfConsumers: is 2, must be 1$") as caught:
        hal.save(model, tmp_path / "a.hal")
    assert caught.value.status is hal.ErrorStatus.INVALID_ARGUMENT
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    with pytest.raises(NpusimError, match="cannot be written"):
        hal.save(addition(), tmp_path / "no" / "a.hal")
    with pytest.raises(FormatError, match=r"a\.hal: no such file$"):
        hal.load(tmp_path / "a.hal")
    with pytest.raises(FormatError, match="is a folder, not a model file"):
        hal.load(tmp_path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.hal"
    hal.save(addition(), path)
    before = path.read_bytes()
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        hal.save(convolution(), path)
    except NpusimError:
        assert path.read_bytes() == before
    finally:
        tmp_path.chmod(stat.S_IRWXU)


# Damage


def data_of(model: hal.Model, folder: Path) -> bytes:
    hal.save(model, folder / "model.hal")
    return (folder / "model.hal").read_bytes()


def test_every_flipped_bit_and_every_missing_end_is_seen(tmp_path: Path) -> None:
    data = data_of(convolution(), tmp_path)
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            loads(bytes(changed))
    for size in range(len(data)):
        with pytest.raises(FormatError):
            loads(data[:size])


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_in_one_line(damage: Damage, tmp_path: Path) -> None:
    data = data_of(branches(), tmp_path)
    for seed in range(30):
        changed = bytearray(data)
        damage(changed, random.Random(seed))
        if changed == data:
            continue
        (tmp_path / "damaged.hal").write_bytes(changed)
        with pytest.raises(FormatError) as caught:
            hal.load(tmp_path / "damaged.hal")
        assert str(caught.value).startswith(f"{tmp_path}/damaged.hal: ")
        assert str(caught.value).isprintable()


def made(model: object, values: bytes = b"", pools: bytes = b"") -> bytes:
    """A file with sound checksums of whatever the section `model` holds."""
    text = model if isinstance(model, str) else to_json(model)
    bodies = {"model": text.encode("utf-8"), "operandValues": values, "pools": pools}
    return b"".join(map(bytes, FILE.pieces(bodies)))


EMPTY = {"operands": [], "operations": [], "inputIndexes": [], "outputIndexes": [], "version": "V1_0"}

WRONG = {
    "[]": "model: is a list of 0, must be a table",
    '{"a":1,"a":2}': 'section model: "a" stands twice in one table',
    "{": "section model: not valid JSON: ",
    "\u00e4": "section model: byte 0 is not ASCII",
    json.dumps({}): "model: has no operands",
    json.dumps({**EMPTY, "more": 1}): 'model: has "more", which is no field of Model',
    json.dumps({**EMPTY, "operandValues": "AA"}): 'model: has "operandValues", which is no field of Model',
    json.dumps({**EMPTY, "version": "V9"}): "version: is 'V9', must be one of HalVersion",
    json.dumps({**EMPTY, "operands": 3}): "operands: is 3, must be a list",
    json.dumps({**EMPTY, "operands": [{}]}): "operands[0]: has no type",
    json.dumps(
        {**EMPTY, "operands": [{"type": "ADD"}]}
    ): "operands[0].type: is 'ADD', must be one of OperandType",
    json.dumps(
        {**EMPTY, "operands": [{"type": "INT32", "location": [1]}]}
    ): "operands[0].location: must be poolIndex, offset, length",
    json.dumps(
        {**EMPTY, "operands": [{"type": "INT32", "dimensions": [1.5]}]}
    ): "operands[0].dimensions[0]: is 1.5, must be an integer 0..4294967295",
    json.dumps({**EMPTY, "operations": [{"type": "ADD", "inputs": []}]}): "operations[0]: has no outputs",
    json.dumps(
        {**EMPTY, "referenced": [EMPTY]}
    ): 'referenced[0]: has "version", which is no field of Subgraph',
    json.dumps(
        {**EMPTY, "pools": [3]}
    ): "pools: must be sizes that add up to the 2 bytes of the section pools",
}


@pytest.mark.parametrize("text", WRONG)
def test_sound_checksums_do_not_make_a_model(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        loads(made(text, pools=b"ab" if "pools" in text else b""))
    assert str(caught.value).startswith(WRONG[text])
    assert str(caught.value).isprintable()


def test_a_newer_file_is_refused_as_that(tmp_path: Path) -> None:
    data = bytearray(data_of(addition(), tmp_path))
    data[8] = 2
    with pytest.raises(
        FormatError, match=r"^file version 2; this npusim reads version 1: update npusim, or save"
    ):
        loads(bytes(data))


# As a front door


def executed(model: hal.Model) -> bytes:
    """The output of a request of zeros."""
    request = request_of(model)
    with hal.Device() as device:
        device.prepareModel(model).unwrap().execute(request).unwrap()
    return bytes(request.pools[1])


@pytest.mark.parametrize("make", [addition, convolution, branches])
def test_a_file_runs_as_its_model_does(make: Callable[[], hal.Model], tmp_path: Path) -> None:
    hal.save(make(), tmp_path / "model.hal")
    graph = npusim.load(tmp_path / "model.hal")
    inputs = {
        f"in{n}": np.zeros(graph.tensors[i].type.shape, graph.tensors[i].type.dtype)
        for n, i in enumerate(graph.inputs)
    }
    result = npusim.run(tmp_path / "model.hal", inputs=inputs)
    assert result.outputs is not None
    assert b"".join(output.tobytes() for output in result.outputs) == executed(make())
    assert result.cycles > 0


def test_random_models_are_graphs_if_all_sizes_are_known(tmp_path: Path) -> None:
    graphs = 0
    for seed in range(30):
        drawn, _ = of_seed(seed, 8)
        hal.save(drawn.model, tmp_path / "model.hal")
        operands = [drawn.model.operands[index] for index in drawn.model.inputIndexes]
        is_open = [not operand.dimensions or 0 in operand.dimensions for operand in operands]
        if any(one and operand.numberOfConsumers for one, operand in zip(is_open, operands, strict=True)):
            with pytest.raises(NpusimError, match=r"model\.hal: "):
                npusim.load(tmp_path / "model.hal")
            continue
        graph = npusim.load(tmp_path / "model.hal")
        graphs += 1
        shapes = [graph.tensors[number].type.shape for number in graph.outputs]
        assert shapes == drawn.shapes
    assert graphs > 15


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    model = addition(hal.HalVersion.V1_2, [2, 0])
    hal.save(model, tmp_path / "model.hal")
    with pytest.raises(NpusimError, match=r"operands\[0\]"):
        npusim.load(tmp_path / "model.hal")
    from npusim.frontends import frontend

    graph = frontend.read(tmp_path / "model.hal", {"operands[0]": (2, 3)})
    assert [graph.tensors[number].type.shape for number in graph.outputs] == [(2, 3)]


def test_an_optional_input_of_open_size_is_omitted(tmp_path: Path) -> None:
    model = hashes()
    model.operands[2].dimensions = [0]
    model.operandValues = bytes(model.operandValues)[:-4] + np.int32(1).tobytes()  # sparse: takes no weight
    model.operands[4].dimensions = [2]
    hal.save(model, tmp_path / "model.hal")
    graph = npusim.load(tmp_path / "model.hal")
    assert [graph.tensors[number].name for number in graph.inputs] == ["operands[1]"]


def test_parameters_that_only_a_request_says_are_named(tmp_path: Path) -> None:
    maker = Maker()
    x = maker.input(hal.OperandType.TENSOR_FLOAT32, [2, 3])
    paddings = maker.input(hal.OperandType.TENSOR_INT32, [2, 2])
    y = maker.output(hal.OperandType.TENSOR_FLOAT32, [0, 0])
    maker.operation(hal.OperationType.PAD, [x, paddings], [y])
    hal.save(maker.model(hal.HalVersion.V1_2), tmp_path / "model.hal")
    with pytest.raises(
        NpusimError, match=r"operations\[0\]\.inputs\[1\]: operands\[1\] must be known before"
    ):
        npusim.load(tmp_path / "model.hal")
