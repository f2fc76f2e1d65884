"""What a compiled model is in entries: kept and read again, refused where entries do not fit, tokens of content."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.frontends.nnadapter.codes import FuseCode, Precision
from npusim.frontends.nnadapter.model import Model
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.file import change
from npusim.nnadapter.cache import container, record
from npusim.nnadapter.cache.expectation import DeviceFacts, Expectation, machine_digest
from npusim.nnadapter.cache.record import Crossing, KeptGear, KeptPiece, Record
from npusim.nnadapter.cache.refusals import (
    BadContent,
    CacheRefused,
    WrongDevice,
    WrongMachine,
    WrongToken,
)
from npusim.nnadapter.cache.tokens import token_of
from npusim.session import api

CODES = TensorType("int8", (2, 3), Quantization((0.5,), (-3,)))
REALS = TensorType("float32", (2, 3))
NPU = DeviceFacts("npusim", 1, api.hardware("edge-128"))
HOST = DeviceFacts("npusim_host", 1, api.hardware("edge-64"))

PIECES = (
    KeptPiece(
        "npusim",
        ("operations[0]", "operations[1]"),
        (Crossing("x", CODES),),
        (Crossing("between", REALS), Crossing("y", CODES)),
        (-1,),
        (7, -2),
        b"program",
    ),
    KeptPiece(
        "npusim_host",
        ("operations[2]",),
        (Crossing("between", REALS), Crossing("x", CODES)),
        (Crossing("z", REALS),),
        (7, -1),
        (-1,),
        b"",
    ),
)

RECORD = Record(
    token="mine",
    npusim_version=npusim_version(),
    machine_digest=machine_digest([NPU, HOST]),
    properties="A=1;",
    name="a model",
    inputs=(OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, (2, -1), scale=0.5, dynamic=((2, 3),)),),
    outputs=(
        OperandType(Precision.FLOAT32, (2, 3)),
        OperandType(Precision.QUANT_INT8_SYMM_PER_CHANNEL, (2, 3), scales=(0.5, 0.25), channel_dim=0),
    ),
    gears=(KeptGear(((2, 3),), PIECES),),
    compile_seconds=1.25,
    details={"why": ["words", 2, 0.5, None, True]},
)

EXPECTED = Expectation("mine", (NPU, HOST), "A=1;")


def test_kept_and_read_again() -> None:
    data = record.save(RECORD)
    assert record.load(data) == RECORD
    assert record.save(RECORD) == data
    EXPECTED.require(record.load(data))


def test_entries_are_those_of_nnadapter() -> None:
    """Checklist 8.4, in this order, then npusim's own."""
    entries = container.loads(record.save(RECORD))
    ends = ("input_types", "output_types", "input_indexes", "output_indexes")
    keys = ("device_name", *ends, "model_buffer", "operations")
    assert list(entries) == [
        *("input_types", "output_types", "num_caches"),
        *(f"cache_0_{key}" for key in keys),
        *(f"cache_1_{key}" for key in keys),
        *("token", "npusim_version", "machine_digest", "properties", "name"),
        *("gears", "compile_seconds", "details"),
    ]
    assert entries["num_caches"] == (2).to_bytes(8, "little")
    assert entries["cache_0_device_name"] == b"npusim"
    assert entries["cache_0_model_buffer"] == b"program"
    assert np.frombuffer(entries["cache_0_output_indexes"], "<i4").tolist() == [7, -2]
    assert np.frombuffer(entries["cache_1_input_indexes"], "<i4").tolist() == [7, -1]
    assert json.loads(entries["input_types"]) == [
        {"precision": "QUANT_INT8_SYMM_PER_LAYER", "dimensions": [2, -1], "scale": 0.5, "dynamic": [[2, 3]]}
    ]


def with_entry(key: str, value: bytes | None) -> bytes:
    """The container with an entry replaced, added, or left out, and a right checksum."""
    entries = container.loads(record.save(RECORD))
    if value is None:
        del entries[key]
    else:
        entries[key] = value
    return container.dumps(entries)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("num_caches", None, "entry num_caches is missing"),
        ("num_caches", b"\1", "entry num_caches: has 1 bytes, must have 8"),
        ("num_caches", b"\xff" * 8, "entry num_caches: is 18446744073709551615, there are 22 entries more"),
        ("num_caches", (3).to_bytes(8, "little"), "entry cache_2_device_name is missing"),
        ("num_caches", (1).to_bytes(8, "little"), "gears: 1 with 2 pieces, num_caches says 1"),
        ("more", b"", 'entry "more" is not known'),
        ("token", b"\xff", "entry token: is not UTF-8 at byte 0"),
        ("details", b"[]", "entry details: a list of 0 is not a table"),
        (
            "details",
            b"[" * 100_000,
            "entry details: lists and tables lie in each other too deep",
        ),
        ("gears", b"[", "entry gears: not valid JSON: Expecting value at character 1"),
        ("gears", b"[]", "gears: 0 with 0 pieces, num_caches says 2"),
        ("gears", b'[{"shapes":[],"pieces":2}]', "shapes of 0 inputs, the model has 1"),
        (
            "gears",
            b'[{"shapes":[[3,3]],"pieces":2}]',
            "shape [3, 3] of an input that is QUANT_INT8_SYMM_PER_LAYER[2, ?]",
        ),
        (
            "gears",
            b'[{"shapes":[[2,4]],"pieces":2}]',
            'piece 0: input "x" has shape [2, 3], not that of its gear',
        ),
        (
            "gears",
            b'[{"shapes":[[2,3]],"pieces":1},{"shapes":[[2,3]],"pieces":1}]',
            "gear 0: no piece computes output 0 of the model",
        ),
        ("compile_seconds", np.array(np.nan).tobytes(), "entry compile_seconds: is nan, must be 0 or more"),
        ("cache_0_input_indexes", b"abc", "entry cache_0_input_indexes: has 3 bytes, must have 4 per index"),
        ("cache_0_input_indexes", b"", "piece 0: 0 input indexes for 1 inputs"),
        (
            "cache_0_input_indexes",
            np.array([-2], "<i4").tobytes(),
            'piece 0: input "x" is input 1 of a model with 1',
        ),
        (
            "cache_0_input_indexes",
            np.array([-(2**31)], "<i4").tobytes(),
            'piece 0: input "x" is input 2147483647 of a model with 1',
        ),
        (
            "cache_1_input_indexes",
            np.array([8, -1], "<i4").tobytes(),
            'piece 1: input "between" is value 8, which no piece before it leaves in this type',
        ),
        ("cache_1_output_indexes", np.array([7], "<i4").tobytes(), 'piece 1: output "z" is computed twice'),
        (
            "cache_1_output_indexes",
            np.array([-3], "<i4").tobytes(),
            'piece 1: output "z" is output 2 of a model with 2',
        ),
        (
            "cache_1_output_indexes",
            np.array([8], "<i4").tobytes(),
            "no piece computes output 0 of the model",
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
            "cache_0_input_types",
            b'[{"name":"x","type":{"dtype":"int8","shape":[281474976710655,281474976710655]}}]',
            "entry cache_0_input_types: [0].type.shape: a list of 2 is more than 2^40 bytes",
        ),
    ],
)
def test_entries_that_break_a_rule(key: str, value: bytes | None, text: str) -> None:
    with pytest.raises(BadContent) as refused:
        record.load(with_entry(key, value))
    assert str(refused.value) == text


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_entries_of_strangers(draw: st.DataObject) -> None:
    """A container with a right checksum and anything in an entry is a record or a refusal."""
    entries = container.loads(record.save(RECORD))
    key = draw.draw(st.sampled_from(sorted(entries)))
    value = bytearray(entries[key])
    for _ in range(draw.draw(st.integers(1, 3))):
        begin = draw.draw(st.integers(0, len(value)))
        end = draw.draw(st.integers(begin, min(begin + 3, len(value))))
        value[begin:end] = draw.draw(
            st.binary(max_size=4) | st.sampled_from((b"9", b"-", b'"', b"[", b"null"))
        )
    try:
        record.load(container.dumps(entries | {key: bytes(value)}))
    except CacheRefused:
        return


@pytest.mark.parametrize(
    ("kept", "kind", "text"),
    [
        (replace(RECORD, token="yours"), WrongToken, 'kept under token "yours", must be "mine"'),
        (
            replace(RECORD, gears=(KeptGear(((2, 3),), (replace(PIECES[0], device="other"), PIECES[1])),)),
            WrongDevice,
            'compiled for device "other", the context has npusim, npusim_host',
        ),
        (
            replace(RECORD, npusim_version="0.0"),
            WrongMachine,
            f'compiled with npusim "0.0", must be "{npusim_version()}"',
        ),
        (replace(RECORD, machine_digest="ab"), WrongMachine, 'compiled with machine digest "ab", must be "'),
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
