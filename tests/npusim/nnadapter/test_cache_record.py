"""What a compiled model is in entries: kept and read again, refused where entries do not fit, tokens of content."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import FuseCode, Precision
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.file import change
from npusim.isa.program.record import to_plain
from npusim.nnadapter.cache import compiled_record, nnc_container
from npusim.nnadapter.cache.cache_token import DeviceFacts, Expectation, machine_digest, token_of
from npusim.nnadapter.cache.compiled import CompiledGear, CompiledPiece, Crossing
from npusim.nnadapter.cache.compiled_record import Record, load
from npusim.nnadapter.cache.nnc_container import (
    BadContent,
    CacheRefused,
    WrongDevice,
    WrongMachine,
    WrongToken,
)
from npusim.session import api
from tests.examples import examples

CODES = TensorType("int8", (2, 3), Quantization((0.5,), (-3,)))
REALS = TensorType("float32", (2, 3))
NPU = DeviceFacts("npusim", 1, api.hardware("edge-128"))
HOST = DeviceFacts("npusim_host", 1, api.hardware("edge-64"))

X, BETWEEN = Crossing(4, "x", CODES), Crossing(7, "between", REALS)
Y, Z = Crossing(8, "y", CODES), Crossing(9, "z", REALS)

PIECES = (
    CompiledPiece(
        "npusim", ("conv_2d", "relu"), ("operations[0]", "operations[1]"), (X,), (BETWEEN, Y), b"program"
    ),
    CompiledPiece("npusim_host", ("add",), ("operations[2]",), (BETWEEN, X, Y), (Z,), b""),
)

RECORD = Record(
    token="mine",
    npusim_version=npusim_version(),
    machine_digest=machine_digest([NPU, HOST]),
    properties="A=1;",
    name="a model",
    inputs=(OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, [2, -1], scale=0.5, dynamic=((2, 3),)),),
    outputs=(
        OperandType(Precision.FLOAT32, [2, 3]),
        OperandType(Precision.QUANT_INT8_SYMM_PER_CHANNEL, [2, 3], scales=(0.5, 0.25), channel_dim=0),
        OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, [2, 3], scale=0.5),
        OperandType(Precision.FLOAT32, [2, 3]),
    ),
    gears=(CompiledGear((X,), (Z, Y, X, replace(Z, number=2)), PIECES, {2: np.zeros(24, np.uint8)}),),
    compile_seconds=1.25,
)
"""Outputs: of the second piece; of the first, read by the second too; the input; a constant."""

EXPECTED = Expectation("mine", (NPU, HOST), "A=1;")


def plain(record: Record) -> object:
    """Return a record as values that can be compared."""
    gears = [
        (
            gear.inputs,
            gear.outputs,
            [vars(piece) for piece in gear.pieces],
            {number: array.tobytes() for number, array in gear.constants.items()},
            gear.tries,
        )
        for gear in record.gears
    ]
    return replace(record, gears=()), gears


def test_kept_and_read_again() -> None:
    data = compiled_record.save(RECORD)
    assert plain(load(data)) == plain(RECORD)
    assert compiled_record.save(RECORD) == data
    EXPECTED.require(load(data))


def test_entries_are_those_of_nnadapter() -> None:
    """Checklist 8.4, in this order, then npusim's own."""
    entries = nnc_container.read_cache(compiled_record.save(RECORD))
    ends = ("input_types", "output_types", "input_indexes", "output_indexes")
    keys = ("device_name", *ends, "model_buffer", "kinds", "operations")
    assert list(entries) == [
        *("input_types", "output_types", "num_caches"),
        *(f"cache_0_{key}" for key in keys),
        *(f"cache_1_{key}" for key in keys),
        *("token", "npusim_version", "machine_digest", "properties", "name"),
        *("gears", "gear_0_constant_2", "compile_seconds"),
    ]
    assert entries["num_caches"] == (2).to_bytes(8, "little")
    assert entries["cache_0_device_name"] == b"npusim"
    assert entries["cache_0_model_buffer"] == b"program"
    indexes = {
        key: np.frombuffer(entries[key], "<i4").tolist() for key in entries if key.endswith("_indexes")
    }
    assert list(indexes.values()) == [[-1], [7, -2], [7, -1, 8], [-1]]
    assert json.loads(entries["input_types"]) == [
        {"precision": "QUANT_INT8_SYMM_PER_LAYER", "dimensions": [2, -1], "scale": 0.5, "dynamic": [[2, 3]]}
    ]


def with_entry(key: str, value: bytes | None) -> bytes:
    """The container with an entry replaced, added, or left out, and a right checksum."""
    entries = nnc_container.read_cache(compiled_record.save(RECORD))
    if value is None:
        del entries[key]
    else:
        entries[key] = value
    return nnc_container.write_cache(entries)


def gears(**changed: object) -> bytes:
    """The entry of gears, with changes to the only one."""
    (gear,) = json.loads(nnc_container.read_cache(compiled_record.save(RECORD))["gears"])
    return json.dumps([gear | changed]).encode()


def ends(*crossings: Crossing) -> list[dict[str, object]]:
    """Crossings as JSON has them."""
    return [to_plain(crossing) for crossing in crossings]


def as_json(*crossings: Crossing) -> bytes:
    return json.dumps(ends(*crossings)).encode()


ENTRY_RULES: tuple[tuple[str, bytes | None, str], ...] = (
    ("num_caches", None, "entry num_caches is missing"),
    ("num_caches", b"\1", "entry num_caches: has 1 bytes, must have 8"),
    ("num_caches", b"\xff" * 8, "entry num_caches: is 18446744073709551615, there are 24 entries more"),
    ("num_caches", (3).to_bytes(8, "little"), "entry cache_2_device_name is missing"),
    ("num_caches", (1).to_bytes(8, "little"), "gears: 1 with 2 pieces, num_caches says 1"),
    ("more", b"", 'entry "more" is not known'),
    ("token", b"\xff", "entry token: is not UTF-8 at byte 0"),
    ("gears", b"[" * 100_000, "entry gears: lists and tables lie in each other too deep"),
    ("gears", b"[", "entry gears: not valid JSON: Expecting value at character 1"),
    ("gears", b"[]", "gears: 0 with 0 pieces, num_caches says 2"),
    ("gears", gears(inputs=[]), "piece 0: its indexes are not those of its inputs and outputs"),
    ("gears", gears(outputs=ends(Z, Y, X)), "3 outputs, the model has 4"),
    ("gears", gears(constants=[]), 'entry "gear_0_constant_2" is not known'),
    ("gears", gears(constants=[3]), "entry gear_0_constant_3 is missing"),
    (
        "gears",
        gears(outputs=ends(Z, Y, X, replace(Z, number=3)), constants=[2]),
        '"z" is value 3, which nothing before leaves in this type',
    ),
    (
        "gears",
        gears(outputs=ends(Z, Y, replace(X, type=REALS), replace(Z, number=2))),
        '"x" is value 4, which nothing before leaves in this type',
    ),
    (
        "gears",
        gears(outputs=ends(replace(Z, type=TensorType("float32", (3, 2))), Y, X, replace(Z, number=2))),
        'output "z" has shape [3, 2], the model has FLOAT32[2, 3]',
    ),
    (
        "gears",
        gears(outputs=ends(replace(Z, counted=9), Y, X, replace(Z, number=2))),
        '"z" has as many rows as value 9 says, which cannot say it',
    ),
    ("gear_0_constant_2", bytes(23), 'constant "z" has 23 bytes, must have 24'),
    ("compile_seconds", np.array(np.nan).tobytes(), "entry compile_seconds: is nan, must be 0 or more"),
    ("cache_0_input_indexes", b"abc", "piece 0: its indexes are not those of its inputs and outputs"),
    ("cache_0_input_indexes", b"\0" * 4, "piece 0: its indexes are not those of its inputs and outputs"),
    ("cache_0_kinds", b"[]", "piece 0: 0 kinds for 2 operations"),
    (
        "cache_0_input_types",
        as_json(replace(X, type=REALS)),
        'piece 0: "x" is value 4, which nothing before leaves in this type',
    ),
    (
        "cache_1_output_types",
        as_json(replace(Z, type=CODES)),
        '"z" is value 9, which nothing before leaves in this type',
    ),
    (
        "cache_0_input_types",
        as_json(X).replace(b"4", b"2147483648", 1),
        "entry cache_0_input_types: [0].number: 2147483648 is not a whole number from 0 to 2147483647",
    ),
    (
        "cache_0_input_types",
        b'[{"number":1,"name":"x","type":{"dtype":"int8","shape":[281474976710655,281474976710655]}}]',
        "entry cache_0_input_types: [0].type.shape: a list of 2 is more than 2^40 bytes",
    ),
    (
        "input_types",
        b'[{"precision":"INT9","dimensions":[1]}]',
        'entry input_types: [0]: "INT9" is no precision',
    ),
    (
        "input_types",
        b'[{"precision":"FLOAT32","dimensions":[-2]}]',
        "entry input_types: [0].dimensions[0]: -2 is not a whole number from -1 to 2147483647",
    ),
    (
        "input_types",
        b'[{"precision":"FLOAT32","dimensions":[2],"scale":1e300}]',
        "entry input_types: [0]: scale is 1e+300, must be above 0 and finite as float32",
    ),
    (
        "output_types",
        b'[{"precision":"FLOAT32","dimensions":[2,-1],"dynamic":[[3,1]]}]',
        "entry output_types: [0]: shape [3, 1] does not fit [2, -1]",
    ),
    (
        "input_types",
        b'[{"precision":"FLOAT32","dimensions":[2]}]',
        'input "x" has shape [2, 3], the model has FLOAT32[2]',
    ),
)


@pytest.mark.parametrize(("key", "value", "text"), ENTRY_RULES)
def test_entries_that_break_a_rule(key: str, value: bytes | None, text: str) -> None:
    with pytest.raises(BadContent) as refused:
        load(with_entry(key, value))
    assert str(refused.value) == text


def test_pieces_in_another_order() -> None:
    """The first would read what only the second leaves."""
    gear = replace(RECORD.gears[0], pieces=PIECES[::-1])
    with pytest.raises(BadContent, match='piece 0: "between" is value 7, which nothing before leaves'):
        load(compiled_record.save(replace(RECORD, gears=(gear,))))


def test_gears_of_the_same_shapes() -> None:
    with pytest.raises(BadContent, match="gears: 2 for 1 choices of shapes"):
        load(compiled_record.save(replace(RECORD, gears=RECORD.gears * 2)))


def test_values_that_are_there_already() -> None:
    gear = replace(RECORD.gears[0], pieces=(PIECES[0], *PIECES))
    with pytest.raises(BadContent, match='piece 1: "between" is value 7, which is there already'):
        load(compiled_record.save(replace(RECORD, gears=(gear,))))


@pytest.mark.slow
@given(st.data())
@examples(300)
def test_entries_of_strangers(draw: st.DataObject) -> None:
    """A container with a right checksum and anything in an entry is a record or a refusal."""
    entries = nnc_container.read_cache(compiled_record.save(RECORD))
    key = draw.draw(st.sampled_from(sorted(entries)))
    value = bytearray(entries[key])
    for _ in range(draw.draw(st.integers(1, 3))):
        begin = draw.draw(st.integers(0, len(value)))
        end = draw.draw(st.integers(begin, min(begin + 3, len(value))))
        value[begin:end] = draw.draw(
            st.binary(max_size=4) | st.sampled_from((b"9", b"-", b'"', b"[", b"null"))
        )
    try:
        load(nnc_container.write_cache(entries | {key: bytes(value)}))
    except CacheRefused:
        return


@pytest.mark.parametrize(
    ("kept", "kind", "text"),
    [
        (replace(RECORD, token="yours"), WrongToken, 'kept under token "yours", must be "mine"'),
        (
            replace(RECORD, gears=(replace(RECORD.gears[0], pieces=(replace(PIECES[0], device="other"),)),)),
            WrongDevice,
            'compiled for device "other", the context has npusim, npusim_host',
        ),
        (
            replace(RECORD, npusim_version="0.0"),
            WrongMachine,
            f'compiled with npusim "0.0", must be "{npusim_version()}"',
        ),
        (
            replace(RECORD, machine_digest=machine_digest([NPU])),
            WrongDevice,
            'compiled for the devices "npusim", the context has npusim, npusim_host',
        ),
        (
            replace(RECORD, machine_digest=machine_digest([NPU, HOST._replace(version=7)])),
            WrongMachine,
            'compiled with another npusim_host: version and machine digest "7 ',
        ),
        (
            replace(RECORD, properties="A=2;"),
            WrongMachine,
            'compiled with properties "A=2;", must be "A=1;"',
        ),
    ],
)
def test_compiled_for_something_else(kept: Record, kind: type[CacheRefused], text: str) -> None:
    with pytest.raises(kind) as refused:
        EXPECTED.require(kept)
    assert str(refused.value).startswith(text)


def test_machines_that_differ_have_other_digests() -> None:
    """In their order, names, drivers' versions and every parameter; a machine's own name means nothing."""
    edge = api.hardware("edge-128")
    lists: list[list[DeviceFacts]] = [
        [NPU],
        [NPU, HOST],
        [HOST, NPU],
        [NPU._replace(name="other")],
        [NPU._replace(version=2)],
        [NPU._replace(hardware=None)],
        [NPU._replace(hardware=change(edge, {"clock_mhz": 501}, "test"))],
    ]
    assert len({machine_digest(devices) for devices in lists}) == len(lists)
    renamed = NPU._replace(hardware=change(edge, {"name": "another name"}, "test"))
    assert machine_digest([NPU]) == machine_digest([renamed])


def a_model(
    *,
    name: str = "model",
    scale: float = 0.5,
    sizes: tuple[int, ...] = (1, 4),
    constant: tuple[int, ...] = (1, 2, 3, 4),
    fuse: FuseCode = FuseCode.FUSED_NONE,
    label: str = "",
    swapped: bool = False,
    gears: tuple[tuple[int, ...], ...] = (),
) -> Model:
    """x + constant, in codes."""
    model = Model(name)
    codes = Precision.QUANT_INT8_SYMM_PER_LAYER
    x = model.add_operand(OperandType(codes, sizes, scale=scale, dynamic=gears), label)
    c = model.add_constant(np.array([constant], np.int8), OperandType(codes, (1, len(constant)), scale=0.5))
    y = model.add(*((c, x) if swapped else (x, c)), fuse)
    model.identify([x], [y])
    model.finish()
    return model


VARIANTS: tuple[Callable[[], Model], ...] = (
    a_model,
    lambda: a_model(name="other"),
    lambda: a_model(scale=0.25),
    lambda: a_model(sizes=(2, 4)),
    lambda: a_model(constant=(1, 2, 3, 5)),
    lambda: a_model(fuse=FuseCode.FUSED_RELU),
    lambda: a_model(label="x"),
    lambda: a_model(swapped=True),
    lambda: a_model(sizes=(-1, 4)),
    lambda: a_model(sizes=(-1, 4), gears=((2, 4),)),
)


def test_tokens_are_of_the_content() -> None:
    """32 hexadecimal digits: the same for the same, another one for each thing that differs."""
    tokens = {token_of(make(), [NPU], {}) for make in VARIANTS}
    assert len(tokens) == len(VARIANTS)
    assert tokens == {token_of(make(), [NPU], {}) for make in VARIANTS}
    assert all(len(token) == 32 and int(token, 16) >= 0 for token in tokens)
    others = {token_of(a_model(), [HOST], {}), token_of(a_model(), [NPU], {"properties": "A=1;"})}
    assert len(others | tokens) == len(VARIANTS) + 2


def test_tokens_of_models_of_other_doors() -> None:
    """Of every constant, parameter and name of the graph."""
    graph = api.load("digits_cnn")
    token = token_of(Model.of(graph), [NPU], {})
    assert token == token_of(Model.of(api.load("digits_cnn")), [NPU], {})
    number, constant = next(
        (number, tensor) for number, tensor in enumerate(graph.tensors) if tensor.array is not None
    )
    data = constant.array.copy()
    data.reshape(-1)[-1] ^= 1
    tensors = [*graph.tensors[:number], replace(constant, data=data), *graph.tensors[number + 1 :]]
    changed = (
        replace(graph, tensors=tuple(tensors)),
        replace(graph, name="other"),
        replace(graph, nodes=(replace(graph.nodes[0], on_host="asked"), *graph.nodes[1:])),
        replace(graph, nodes=(replace(graph.nodes[0], name="renamed"), *graph.nodes[1:])),
    )
    assert len({token, *(token_of(Model.of(other), [NPU], {}) for other in changed)}) == 5
