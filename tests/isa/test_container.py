"""Program files: the documented bytes, and one line about every file that is not one."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import NpusimError, ProgramError
from npusim.isa.base.tensor import HostCall, Quantization, TensorType
from npusim.isa.hardware.file import to_dict
from npusim.isa.hardware.memories import Space
from npusim.isa.instructions.control import Barrier, Call
from npusim.isa.instructions.dma import Copy
from npusim.isa.program import container
from npusim.isa.program.interpreter import interpret
from npusim.isa.program.program import Area, Buffer, Program
from npusim.session import api
from tests.examples import examples

from ..graphs import Sketch
from ..yardstick import cost
from .samples import CALLS, HOST_FUNCTIONS, program_of, tensor, tiny_hardware

INSTRUCTIONS = [
    Copy(source=512, source_space=1, target=0, size=16),
    Copy(source=0, target_space=1, target=544, size=16, waits=((0, 1),)),
    Call(index=0),
    Barrier(waits=((0, 2), (6, 1))),
]
PROGRAM = program_of(
    INSTRUCTIONS,
    code_space=Space.MEMORY2,
    areas=(Area(2, 8192),),
    spared=(Area(1, 0),),
    notes=("what the reader says",),
)
DATA = container.dumps(PROGRAM)
NAMES = ("code", "layer_of", "constants", "metadata")


def unpacked(data: bytes) -> dict[str, bytes]:
    """The sections, read as docs/npu_file.md says."""
    assert data[:8] == bytes.fromhex("89 4E 50 55 0D 0A 1A 0A")
    version, count, checksum = struct.unpack_from("<III", data, 8)
    assert (version, count) == (3, 4)
    assert zlib.crc32(data[20:164]) == checksum
    sections, end = {}, 164
    for row in range(count):
        name, offset, size, crc = struct.unpack_from("<16sQQI", data, 20 + 36 * row)
        assert offset == end
        end = offset + size
        sections[name.rstrip(b"\0").decode()] = data[offset:end]
        assert zlib.crc32(data[offset:end]) == crc
    assert end == len(data)
    return sections


def packed(sections: dict[str, bytes], version: int = 3, order: tuple[str, ...] = NAMES) -> bytes:
    """A file with any sections, its checksums right."""
    rows, offset = b"", 164
    for name in order:
        rows += struct.pack("<16sQQI", name.encode(), offset, len(sections[name]), zlib.crc32(sections[name]))
        offset += len(sections[name])
    head = DATA[:8] + struct.pack("<III", version, len(order), zlib.crc32(rows))
    return head + rows + b"".join(sections[name] for name in order)


def refusal(data: bytes) -> str:
    """The one line that a file is refused with."""
    with pytest.raises(ProgramError) as caught:
        container.loads(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_metadata(text: str | bytes) -> bytes:
    return packed(unpacked(DATA) | {"metadata": text if isinstance(text, bytes) else text.encode()})


def edited(edit: Callable[[Any], object]) -> bytes:
    """The file with its metadata changed."""
    plain = json.loads(unpacked(DATA)["metadata"])
    edit(plain)
    return with_metadata(json.dumps(plain))


def require_equal(a: Program, b: Program) -> None:
    assert np.array_equal(a.code, b.code)
    assert np.array_equal(a.layer_of, b.layer_of)
    nothing = np.zeros(0)
    assert replace(a, code=nothing, layer_of=nothing) == replace(b, code=nothing, layer_of=nothing)


# What is written.


def test_values_of_64_bit_tensors_may_be_attributes() -> None:
    calls = tuple(replace(CALLS[0], parameters={"pad_value": value}) for value in (-(1 << 63), (1 << 63) - 1))
    program = replace(PROGRAM, host_calls=(*calls, *PROGRAM.host_calls[2:]))
    loaded = container.loads(container.dumps(program))
    assert [call.parameters["pad_value"] for call in loaded.host_calls[:2]] == [-(1 << 63), (1 << 63) - 1]


def test_a_file_is_as_documented() -> None:
    sections = unpacked(DATA)
    assert tuple(sections) == NAMES
    assert sections["code"] == PROGRAM.code.tobytes()
    assert sections["layer_of"] == struct.pack("<4I", 0, 1, 0, 1)
    assert sections["constants"] == PROGRAM.constants
    assert packed(sections) == DATA


def test_metadata_is_canonical_and_leaves_defaults_out() -> None:
    text = unpacked(DATA)["metadata"].decode("ascii")
    plain = json.loads(text)
    assert json.dumps(plain, sort_keys=True, separators=(",", ":")) == text
    assert plain["hardware"] == to_dict(tiny_hardware())
    assert plain["inputs"] == [
        {
            "address": 512,
            "name": "in",
            "type": {
                "dtype": "int8",
                "shape": [2, 8],
                "quantization": {"scales": [0.5], "zero_points": [-3]},
            },
        }
    ]
    assert plain["layers"][1] == {
        "name": "zwei \u2028 ;\n",
        "op": "add",
        "unit": "vector",
        "workload": {"kind": "elementwise", "elements": 3},
    }
    assert [call.get("reason") for call in plain["host_calls"]] == [None, "the NPU has no concatenate"]
    bare = replace(PROGRAM, buffers=(), images=(), states=())
    assert {"buffers", "images", "states"}.isdisjoint(json.loads(unpacked(container.dumps(bare))["metadata"]))


def test_a_program_comes_back_equal_and_gives_the_same_bytes() -> None:
    loaded = container.loads(DATA)
    require_equal(loaded, PROGRAM)
    assert container.dumps(loaded) == DATA
    assert container.dumps(PROGRAM) == DATA


def test_numbers_and_sequences_of_other_types_give_the_same_bytes() -> None:
    call = replace(CALLS[1], parameters={"axis": np.int64(0), "names": ("x", None), "scale": np.float64(0.1)})
    assert container.dumps(replace(PROGRAM, host_calls=(CALLS[0], call))) == DATA
    order = dict(reversed(CALLS[1].parameters.items()))
    call = replace(CALLS[1], parameters=order)
    assert container.dumps(replace(PROGRAM, host_calls=(CALLS[0], call))) == DATA


def test_scales_come_back_to_the_last_bit() -> None:
    scale = float(np.float32(0.1))
    place = replace(
        PROGRAM.inputs[0], type=TensorType("int8", (2, 8), Quantization((scale, 1e-30), (0, 1), 0))
    )
    loaded = container.loads(container.dumps(replace(PROGRAM, inputs=(place,))))
    assert loaded.inputs == (place,)


def test_an_empty_program_is_a_program() -> None:
    empty = replace(program_of([]), constants=b"", images=(), inputs=(), outputs=(), layers=(), host_calls=())
    require_equal(container.loads(container.dumps(empty)), empty)


@pytest.mark.slow
def test_a_loaded_program_in_a_fresh_process_computes_the_same(tmp_path: Path) -> None:
    program = replace(program_of(INSTRUCTIONS[:2]), host_calls=())
    value = np.arange(16, dtype=np.int8).reshape(2, 8)
    (expected,) = interpret(program, [value])
    api.save_program(program, tmp_path / "p.npu")
    script = (
        "import sys, numpy as np\n"
        "from npusim.isa.program import container, interpreter\n"
        "value = np.arange(16, dtype=np.int8).reshape(2, 8)\n"
        "sys.stdout.write(interpreter.interpret(container.load(sys.argv[1]), [value])[0].tobytes().hex())\n"
    )
    run = [sys.executable, "-c", script, str(tmp_path / "p.npu")]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == expected.tobytes().hex()
    assert expected.tobytes() == bytes(range(16))


def test_saving_replaces_a_file_whole(tmp_path: Path) -> None:
    file = tmp_path / "p.npu"
    file.write_bytes(b"old")
    api.save_program(PROGRAM, str(file))
    assert file.read_bytes() == DATA
    with pytest.raises(ProgramError):
        api.save_program(replace(PROGRAM, dram_size_bytes=-1), file)
    assert file.read_bytes() == DATA
    assert os.listdir(tmp_path) == ["p.npu"]


def test_devices_and_links_stay_what_they_are(tmp_path: Path) -> None:
    api.save_program(PROGRAM, "/dev/null")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "link.npu").symlink_to(tmp_path / "p.npu")
    api.save_program(PROGRAM, tmp_path / "link.npu")
    assert (tmp_path / "link.npu").is_symlink()
    assert (tmp_path / "p.npu").read_bytes() == DATA


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(NpusimError, match=r"nowhere/p\.npu: cannot be written: No such file or directory$"):
        api.save_program(PROGRAM, tmp_path / "nowhere" / "p.npu")
    (tmp_path / "folder").mkdir()
    with pytest.raises(NpusimError, match=r"folder: cannot be written: "):
        api.save_program(PROGRAM, tmp_path / "folder")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dram_size_bytes": -1}, "dram_size_bytes: -1 is not a whole number from 0 to 2^48 - 1"),
        ({"name": 3}, "name: 3 is not text"),
        (
            {"host_calls": (replace(CALLS[0], parameters={"scale": float("nan")}),)},
            "host_calls[0].parameters.scale: nan is not a finite number",
        ),
        (
            {"host_calls": (replace(CALLS[0], parameters={"value": 1 << 63}),)},
            "host_calls[0].parameters.value: 9223372036854775808 is not a whole number of 64 bits",
        ),
        (
            {"host_calls": (replace(CALLS[0], parameters={"data": b"x"}),)},
            "host_calls[0].parameters.data: a bytes is not a JSON value",
        ),
        (
            {"host_calls": (replace(CALLS[0], parameters={1: 2}),)},
            "host_calls[0].parameters: 1 is not text",
        ),
        ({"inputs": (CALLS[0],)}, "inputs[0]: HostCall is not a Placement"),
        ({"layers": (replace(PROGRAM.layers[0], name="\ud800"),)}, "layers[0].name: "),
    ],
)
def test_what_could_not_be_loaded_is_not_written(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        container.dumps(replace(PROGRAM, **fields))
    assert str(caught.value).startswith(message)


# What is refused.


def test_every_changed_byte_is_noticed() -> None:
    for position in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[position] ^= 0x40
        refusal(bytes(damaged))


def test_every_truncation_is_noticed() -> None:
    for size in [*range(200), *range(200, len(DATA), 37)]:
        assert "truncated" in refusal(DATA[:size]) or size < 8
    assert refusal(DATA[:-1]) == (
        f"truncated: the sections end at byte {len(DATA)}, the file has {len(DATA) - 1}"
    )
    assert refusal(DATA[:19]) == "truncated: 19 bytes, the header has 20"
    assert refusal(DATA[:150]) == "truncated: 150 bytes, header and section table have 164"


def test_damage_names_the_section() -> None:
    for name, body in unpacked(DATA).items():
        damaged = bytearray(DATA)
        damaged[DATA.index(body)] ^= 1
        assert refusal(bytes(damaged)) == f"damaged: section {name} does not match its checksum"


SECTIONS = unpacked(DATA)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"",
            "not an npusim program: begins with nothing, must begin with 89 4e 50 55 0d 0a 1a 0a",
        ),
        (
            b"TFL3" + DATA,
            "not an npusim program: begins with 54 46 4c 33 89 4e 50 55, "
            "must begin with 89 4e 50 55 0d 0a 1a 0a",
        ),
        (
            packed(SECTIONS, version=4),
            "file version 4; this npusim reads version 3: update npusim, or compile the model again",
        ),
        (
            packed(SECTIONS, version=1),
            "file version 1; this npusim reads version 3: compile the model again",
        ),
        (DATA + b"\0", "1 bytes stand behind the last section"),
        (
            packed(SECTIONS, order=("layer_of", "code", "constants", "metadata")),
            'section "layer_of" stands where code belongs',
        ),
        (
            packed(SECTIONS | {"code": SECTIONS["code"][:-1]}),
            "section code has 287 bytes, not a multiple of 72",
        ),
        (
            packed(SECTIONS | {"layer_of": SECTIONS["layer_of"][:-1]}),
            "section layer_of has 15 bytes, not a multiple of 4",
        ),
        (
            packed(SECTIONS | {"layer_of": SECTIONS["layer_of"][:-4]}),
            "sample: layer table has 3 entries for 4 instructions",
        ),
        (
            packed(SECTIONS | {"code": bytes(288)}),
            "instruction 0: instruction word: opcode 0x00 is unknown; 72 bytes with opcodes ",
        ),
    ],
)
def test_files_that_are_no_programs_are_refused(data: bytes, message: str) -> None:
    text = refusal(data)
    assert text == message or (message.endswith(" ") and text.startswith(message))


def test_a_table_that_claims_the_impossible_is_refused_without_reading_it(tmp_path: Path) -> None:
    rows = b"".join(
        struct.pack("<16sQQI", name.encode(), 164 + (k << 50), 1 << 50, 0) for k, name in enumerate(NAMES)
    )
    data = DATA[:8] + struct.pack("<III", 3, 4, zlib.crc32(rows)) + rows
    end = 164 + (4 << 50)
    assert refusal(data) == f"truncated: the sections end at byte {end}, the file has 164"
    file = tmp_path / "p.npu"
    file.write_bytes(data)
    os.truncate(file, 1 << 32)  # a sparse file of four gigabytes
    with pytest.raises(ProgramError, match=f"the sections end at byte {end}, the file has {1 << 32}$"):
        container.load(file)
    os.truncate(file, 1 << 40)
    with pytest.raises(ProgramError, match=f"larger than {8 << 30} bytes, not a program$"):
        container.load(file)


def setting(*path: Any, value: Any) -> Callable[[Any], None]:
    def edit(plain: Any) -> None:
        for key in path[:-1]:
            plain = plain[key]
        plain[path[-1]] = value

    return edit


DEEP: Any = None
for _ in range(20):
    DEEP = [DEEP]

WHOLE = "is not a whole number from 0 to 2^48 - 1"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda p: p.pop("name"), "name: is missing"),
        (lambda p: p["inputs"][0].pop("type"), "inputs[0].type: is missing"),
        (setting("dram_size", value=1), "dram_size: unknown field, did you mean dram_size_bytes?"),
        (
            setting("layers", 0, "workload", "mac", value=1),
            "layers[0].workload.mac: unknown field, did you mean macs?",
        ),
        (setting("code_address", value="4096"), f'code_address: "4096" {WHOLE}'),
        (setting("code_address", value=4096.0), f"code_address: 4096.0 {WHOLE}"),
        (setting("code_address", value=True), f"code_address: true {WHOLE}"),
        (setting("code_address", value=-1), f"code_address: -1 {WHOLE}"),
        (setting("code_address", value=1 << 48), f"code_address: 281474976710656 {WHOLE}"),
        (setting("code_address", value=10**600), f"code_address: a very large number {WHOLE}"),
        (setting("buffers", 0, "size_bytes", value=-64), f"buffers[0].size_bytes: -64 {WHOLE}"),
        (setting("inputs", value=None), "inputs: null is not a list"),
        (
            setting("inputs", 0, value=[]),
            "inputs[0]: a list of 0 is not a table of name, type, address, space, from_reals",
        ),
        (setting("layers", 0, "name", value=7), "layers[0].name: 7 is not text"),
        (
            setting("layers", 0, "unit", value="gpu"),
            'layers[0].unit: "gpu" is not one of mac, vector, dma, host, none',
        ),
        (
            setting("layers", 0, "output_shapes", value=[[1], [2] * 17]),
            "layers[0].output_shapes[1]: 17 dimensions; there may be 16",
        ),
        (
            setting("layers", 0, "input_shapes", value=[[1, -2]]),
            "layers[0].input_shapes[0][1]: -2 is not a whole number from 0 to 2^48 - 1",
        ),
        (
            setting("layers", 0, "kernel", value=[3]),
            "layers[0].kernel: [3] is no height and width from 1 on",
        ),
        (
            setting("layers", 0, "stride", value=[1, 0]),
            "layers[0].stride: [1, 0] is no height and width from 1 on",
        ),
        (
            setting("layers", 0, "workload", "kind", value="gem"),
            'layers[0].workload.kind: "gem" is not one of gemm, depthwise, elementwise, move, free, handover',
        ),
        (
            setting("inputs", 0, "type", "dtype", value="O"),
            'inputs[0].type.dtype: "O" is not one of int8, uint8, int16, uint16, int32, uint32, int64, uint64, '
            "float16, float32, float64, bool, complex64, complex128",
        ),
        (
            setting("inputs", 0, "type", "shape", value=[1 << 40, 1 << 40]),
            "inputs[0].type.shape: a list of 2 is more than 2^40 bytes",
        ),
        (
            setting("inputs", 0, "type", "shape", value=[0, 1 << 40, 2]),
            "inputs[0].type.shape: a list of 3 is more than 2^40 bytes",
        ),
        (
            setting("inputs", 0, "type", "shape", value=[1] * 33),
            "inputs[0].type.shape: 33 dimensions; there may be 16",
        ),
        (setting("inputs", 0, "type", "shape", value=[2, -8]), f"inputs[0].type.shape[1]: -8 {WHOLE}"),
        (
            setting("inputs", 0, "type", "quantization", "scales", value=[]),
            "inputs[0].type.quantization: 0 scales with 1 zero points",
        ),
        (
            setting("inputs", 0, "type", "quantization", value={"scales": [1, 2], "zero_points": [0, 0]}),
            "inputs[0].type.quantization: 2 scales without an axis; there may be 1",
        ),
        (
            setting("inputs", 0, "type", "quantization", "scales", value=[-0.5]),
            "inputs[0].type.quantization: scale -0.5 is negative",
        ),
        (
            setting("inputs", 0, "type", "quantization", "axis", value=2),
            "inputs[0].type.quantization: axis 2 of a tensor of 2 dimensions",
        ),
        (
            setting("host_calls", 0, "parameters", value=DEEP),
            "host_calls[0].parameters: a list of 1 is not a table",
        ),
        (
            setting("host_calls", 0, "parameters", "deep", value=DEEP),
            f"host_calls[0].parameters.deep{'[0]' * 15}: lists and tables lie in each other more than 16 levels deep",
        ),
        (
            setting("host_calls", 0, "parameters", "x", value=1e999),
            "section metadata: Infinity is not a number that a program may hold",
        ),
        (
            setting("hardware", "scratchpad", "size_kib", value=0),
            "hardware: 1 fault: scratchpad.size_kib: 0 is not a whole number from 1 to 262144",
        ),
        (setting("hardware", value=[]), "hardware: [] is not a table"),
        (
            setting("dram_size_bytes", value=1 << 40),
            f"sample: needs {1 << 40} bytes of DRAM, the hardware has 1048576",
        ),
        (
            setting("inputs", 0, "address", value=8180),
            'sample: tensor "in" at 8180 with 16 bytes lies outside the 8192 bytes of dram',
        ),
    ],
)
def test_metadata_is_checked_field_by_field(edit: Callable[[Any], object], message: str) -> None:
    assert refusal(edited(edit)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "section metadata: not valid JSON: Expecting value at character 0"),
        ("{", "section metadata: not valid JSON: Expecting property name "),
        ("[]", "a list of 0 is not a table of name, hardware, "),
        ("null", "null is not a table of name, hardware, "),
        ("{} {}", 'section metadata: not valid JSON: " {}" stands behind its end'),
        ('{"name": "a", "name": "b"}', 'section metadata: "name" stands twice in one table'),
        ('{"name": NaN}', "section metadata: NaN is not a number that a program may hold"),
        ("[" * 100_000, "section metadata: lists and tables lie in each other too deep"),
        ('{"name": ' + "1" * 5000 + "}", "section metadata: not valid JSON: a number of thousands of digits"),
        ('{"name": "\\ud800"}', "name: "),
        (b'{"name": "\xc3\xa4"}', "section metadata: byte 10 is not ASCII"),
    ],
)
def test_metadata_that_is_no_json_is_refused(text: str | bytes, message: str) -> None:
    assert refusal(with_metadata(text)).startswith(message)


HOSTILE = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        1 << 31,
        1 << 47,
        1 << 64,
        10**30,
        0.5,
        -1e300,
        "",
        "x",
        "int8",
        "\ud800",
        [],
        {},
        [[]],
    ]
) | st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda each: st.lists(each, max_size=3))


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [each for key, item in items for each in paths(item, (*path, key))]


PATHS = paths(json.loads(SECTIONS["metadata"]))


@pytest.mark.slow
@examples(200)
@given(st.lists(st.tuples(st.sampled_from(PATHS), HOSTILE), min_size=1, max_size=3))
def test_hostile_values_are_refused_or_harmless(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    """A file either gives one line, or a program that executes within its memory."""
    plain = json.loads(SECTIONS["metadata"])
    for path, value in changes:
        try:
            setting(*path, value=value)(plain)
        except (TypeError, LookupError):
            continue  # an earlier change took this place away
    data = with_metadata(json.dumps(plain))
    try:
        program = container.loads(data)
    except ProgramError as fault:
        assert "\n" not in str(fault)  # noqa: PT017
        return
    assert container.loads(container.dumps(program)).name == program.name
    inputs = [np.zeros(place.type.shape, place.type.numpy_dtype) for place in program.inputs]
    if all(call.op in HOST_FUNCTIONS for call in program.host_calls) and program.host_calls == CALLS:
        interpret(program, inputs, HOST_FUNCTIONS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: None, "no such file"),
        (lambda file: file.mkdir(), "is a folder, not a program; it must be a regular file"),
        (
            lambda file: file.write_bytes(DATA[:300]),
            f"truncated: the sections end at byte {len(DATA)}, the file has 300",
        ),
        (lambda file: file.write_bytes(DATA + b"xyz"), "3 bytes stand behind the last section"),
        (
            lambda file: file.write_bytes(packed(SECTIONS, version=9)),
            "file version 9; this npusim reads version 3: ",
        ),
    ],
)
def test_messages_name_the_file(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    file = tmp_path / "net.npu"
    make(file)
    with pytest.raises(ProgramError) as caught:
        container.load(file)
    assert str(caught.value).startswith(f"{file}: {message}")


# Records.


def test_fields_added_to_records_are_written_without_more() -> None:
    """Everything but the raw sections comes from the fields of `Program`."""
    raw = {each.field for each in container.RAW}
    assert raw | set(container.PLAIN_FIELDS) == set(Program.__dataclass_fields__)
    assert set(json.loads(SECTIONS["metadata"])) == set(container.PLAIN_FIELDS)


@pytest.mark.slow
def test_real_programs_load_fast(shared: Path) -> None:
    """3 MB in 10 ms on an idle core, as long as the yardstick."""
    import npusim

    program = npusim.compile(npusim.load(shared / "models" / "coral_mobilenet_v2_1.0_224_quant.tflite"))
    data = container.dumps(program)
    require_equal(container.loads(data), program)
    limit = 5
    assert cost(lambda: container.loads(data), limit) < limit


def test_programs_with_host_calls_come_back() -> None:
    sketch, reals = Sketch(), TensorType("float32", (4,))
    source = sketch.builder.as_input(sketch.add_tensor(reals))
    graph = sketch.graph([sketch.node("logistic", (source,), reals)])
    program = api.compile(graph)
    assert program.host_calls
    data = container.dumps(program)
    assert container.dumps(container.loads(data)) == data


def test_records_of_tests_use_every_kind_of_value() -> None:
    """The sample has what the codecs know: optional places, free tables, signed numbers, tuples of text."""
    assert CALLS[1].inputs[1] is None
    assert isinstance(CALLS[1], HostCall)
    assert PROGRAM.layers[0].tensors
    assert PROGRAM.layers[0].workload == Workload("gemm", macs=64)
    assert PROGRAM.buffers == (Buffer("weights; =", 0, 64, 0, 3),)
    assert tensor("int8", 1).quantization is not None
