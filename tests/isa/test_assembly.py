"""Assembly: instructions and programs as text and back to the same bytes; faults with their line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.errors import ProgramError, within
from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.control import Barrier, Call
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.elementwise import Binary
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.table import all_instructions, by_mnemonic
from npusim.isa.program import container
from npusim.isa.text.assembly import assemble, disassemble, format_instruction, parse_instruction
from tests.examples import NIGHT, examples

from .samples import legal_instructions, program_of, tiny_hardware
from .test_codec import instructions_of

rows = pytest.mark.parametrize("row", all_instructions(), ids=lambda row: row.mnemonic)

WRITTEN = [
    (Barrier(), "ctl.barrier"),
    (Barrier(waits=((4, 3),)), "ctl.barrier wait mac>=3"),
    (Call(index=1, waits=((0, 1), (1, 2), (5, 9))), "host.call index=1 wait dma0>=1, dma1>=2, vector>=9"),
    (
        Copy(channel=1, fill=1, value=255, target_space=1, target=64, size=8),
        "dma.copy channel=1 fill=yes value=255 target_space=dram target=64 size=8",
    ),
    (
        Convolve(ifm_zero=-128, signed=1, rounding=1, output_stationary=1),
        "mac.convolve ifm_zero=-128 signed=int8 rounding=single output_stationary=output_stationary",
    ),
    (Binary(function=4, a_column_stride=1), "vec.binary function=min a_column_stride=1"),
]


@pytest.mark.parametrize(("instruction", "text"), WRITTEN)
def test_instructions_as_text(instruction: Instruction, text: str) -> None:
    assert format_instruction(instruction) == text
    assert parse_instruction(text) == instruction


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("  dma.copy   size=0x10\ttarget=0X0 ", "dma.copy size=16"),
        ("dma.copy fill=1 value=7 size=1", "dma.copy fill=yes value=7 size=1"),
        ("ctl.barrier wait mac >= 3 ,dma0>=0x10", "ctl.barrier wait dma0>=16, mac>=3"),
        ("dma.copy size=1_000", "dma.copy size=1000"),
        ("mac.convolve ifm_zero=-0x80", "mac.convolve ifm_zero=-128"),
    ],
)
def test_other_ways_to_write_the_same(text: str, same: str) -> None:
    assert format_instruction(parse_instruction(text)) == same


@rows
def test_every_row_round_trips(row: type[Instruction]) -> None:
    @examples(40)
    @given(instructions_of(row))
    def check(instruction: Instruction) -> None:
        assert parse_instruction(format_instruction(instruction)) == instruction

    check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no instruction"),
        ("wait mac>=3", "wait stands before the instruction"),
        ("mac.convolv ifm=1", '"mac.convolv" is not an instruction, did you mean mac.convolve?'),
        ("?", within(f'"?" is not an instruction, known are {", ".join(by_mnemonic())}')),
        ("dma.copy szie=4", 'dma.copy: "szie" is not a field, did you mean size?'),
        ("host.call zzz=4", 'host.call: "zzz" is not a field, known are index'),
        ("ctl.barrier size=4", 'ctl.barrier: "size" is not a field, known are cycles, align'),
        ("dma.copy size", 'dma.copy: "size" is not FIELD=VALUE'),
        ("dma.copy size=four", 'dma.copy: size = "four" is not a whole number'),
        ("dma.copy size=", 'dma.copy: size = "" is not a whole number'),
        ("dma.copy size=" + "1" * 5000, f'dma.copy: size = "{"1" * 40}..." is not a whole number'),
        ("dma.copy size=1 size=1", "dma.copy: size stands twice"),
        ("dma.copy channel=4", "dma.copy: channel = 4 is outside 0..3"),
        ("mac.convolve low=-257", "mac.convolve: low = -257 is outside -256..255"),
        (
            "mac.convolve rounding=doubel",
            'mac.convolve: rounding = "doubel" is not one of double, single, did you mean double?',
        ),
        ("mac.convolve rounding=2", "mac.convolve: rounding = 2 is outside 0..1"),
        ("ctl.barrier wait", 'ctl.barrier: wait "" is not UNIT>=COUNT, such as mac>=3'),
        ("ctl.barrier wait mac>3", 'ctl.barrier: wait "mac>3" is not UNIT>=COUNT, such as mac>=3'),
        ("ctl.barrier wait mac>=3,", 'ctl.barrier: wait "" is not UNIT>=COUNT, such as mac>=3'),
        ("ctl.barrier wait vctor>=3", 'ctl.barrier: wait: "vctor" is not a unit, did you mean vector?'),
        (
            "ctl.barrier wait front_end>=3",
            'ctl.barrier: wait: "front_end" is not a unit, known are dma0, dma1, dma2, dma3, mac, vector, host',
        ),
        ("ctl.barrier wait mac>=3, mac>=4", "ctl.barrier: wait: mac stands twice"),
        (
            "ctl.barrier wait dma0>=1, dma1>=1, dma2>=1, mac>=1, vector>=1",
            "ctl.barrier: 5 waits; an instruction has 4, a barrier in front of it may wait for others",
        ),
        ("ctl.barrier wait mac>=0", "ctl.barrier: wait mac>=0 is outside 1..16777215"),
        ("ctl.barrier wait mac>=16777216", "ctl.barrier: wait mac>=16777216 is outside 1..16777215"),
    ],
)
def test_faults_of_an_instruction(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_instruction(text)
    assert str(caught.value) == message


@pytest.mark.slow
@examples(60)
@given(
    st.text(st.characters(codec="utf-8"), max_size=60)
    | st.from_regex(r"dma\.copy( [a-z0-9_]+=[^ ]*)*( wait .*)?")
)
def test_any_text_gives_an_instruction_or_a_line(text: str) -> None:
    try:
        parse_instruction(text)
    except ProgramError as fault:
        assert "\n" not in str(fault)  # noqa: PT017


# Programs.

PROGRAM = program_of(
    [
        Copy(source=512, source_space=1, target=0, size=16),
        Copy(channel=2, target=512, value=7, fill=1, size=32),
        Copy(source=0, target_space=1, target=544, size=16, waits=((0, 1), (2, 1))),
        Call(index=1),
        Barrier(waits=((0, 2), (6, 1))),
    ],
    constants=bytes(40) + b"\x01\x02" + bytes(60),
    hardware=change(tiny_hardware(), {"description": 'a "tiny" one; \u2028 \u00e4'}),
)

TEXT = r"""
.program name="sample" dram_size_bytes=8192 code_address=4096

.hardware
name = "tiny"
description = "a \"tiny\" one;   ä"
...
name = "near"
.end

; 1 inputs
.input name="in" type={"dtype": "int8", "shape": [2, 8], "quantization": {"scales": [0.5], "zero_points": [-3]}} address=512  ; 0

; 1 outputs
.output name="out" type={"dtype": "int8", "shape": [16], "quantization": {"scales": [0.5], "zero_points": [-3]}} address=544  ; 0

; 2 layers
.layer name="first" op="conv_2d" unit="mac" workload={"kind": "gemm", "macs": 64} tensors=["t"]  ; 0
.layer name="zwei \u2028 ;\n" op="add" unit="vector" workload={"kind": "elementwise", "elements": 3}  ; 1

; 2 host_calls
...

; 1 buffers
.buffer name="weights; =" address=0 size_bytes=64 first_instruction=0 last_instruction=4  ; 0

; 1 images
.image address=1024 size_bytes=102  ; 0

; 1 states
.state name="state" type={"dtype": "int8", "shape": [4], "quantization": {"scales": [0.5], "zero_points": [-3]}} address=1028  ; 0

; 5 instructions
.for 0  ; conv_2d "first"
  dma.copy source_space=dram source=512 size=16  ; 0 dma0 1
.for 1  ; add "zwei \u2028 ;\n"
  dma.copy channel=2 fill=yes value=7 target=512 size=32  ; 1 dma2 1
.for 0  ; conv_2d "first"
  dma.copy target_space=dram target=544 size=16 wait dma0>=1, dma2>=1  ; 2 dma0 2
.for 1  ; add "zwei \u2028 ;\n"
  host.call index=1  ; 3 host 1
.for 0  ; conv_2d "first"
  ctl.barrier wait dma0>=2, host>=1  ; 4 front_end 1

.constants 102
0x00000020 0000000000000000010200000000000000000000000000000000000000000000
.end
""".replace("one;   ä", "one; \\u2028 ä")  # noqa: E501


def without_blocks(text: str) -> list[str]:
    """The lines but those of the hardware and of the host calls, which are long."""
    found = []
    for line in text.strip("\n").split("\n"):
        is_parameter = line.startswith("[") or (
            line[:1].isalpha() and not line.startswith(("name", "description"))
        )
        if line and line != "..." and not is_parameter and not line.startswith(".host_call"):
            found.append(line)
    return found


def test_a_program_as_text() -> None:
    assert without_blocks(disassemble(PROGRAM)) == without_blocks(TEXT)


def test_a_program_comes_back_with_the_same_bytes() -> None:
    text = disassemble(PROGRAM)
    assert container.dumps(assemble(text)) == container.dumps(PROGRAM)
    assert container.dumps(assemble(text.replace("\n", "\r\n"))) == container.dumps(PROGRAM)
    assert disassemble(assemble(text)) == text


@pytest.mark.slow
@examples(20)
@given(st.integers(0, 1 << 30), st.text(max_size=20), st.binary(max_size=100))
def test_random_programs_come_back_with_the_same_bytes(seed: int, name: str, constants: bytes) -> None:
    rng = np.random.default_rng(seed)
    instructions = [
        each
        for row in all_instructions()
        for each in legal_instructions(row, int(rng.integers(3)) or 1, seed if NIGHT else seed % 2)
    ]
    layers = tuple(replace(layer, name=name) for layer in PROGRAM.layers)
    program = program_of(instructions, name=name, constants=constants, layers=layers)
    assert container.dumps(assemble(disassemble(program))) == container.dumps(program)


def test_an_empty_program_comes_back() -> None:
    empty = replace(program_of([]), constants=b"", images=(), inputs=(), outputs=(), layers=(), host_calls=())
    assert container.dumps(assemble(disassemble(empty))) == container.dumps(empty)


def test_notes_of_the_reader_come_back() -> None:
    noted = replace(PROGRAM, notes=('batch = 1; "x" is open', "ä"))
    assert container.dumps(assemble(disassemble(noted))) == container.dumps(noted)


@pytest.mark.parametrize("model", ["mlperf_kws_int8", "tflm_mnist_lstm_int8", "coral_split_concat"])
def test_real_programs_come_back_with_the_same_bytes(shared: Path, model: str) -> None:
    import npusim

    program = npusim.compile(npusim.load(shared / "models" / f"{model}.tflite"))
    assert container.dumps(assemble(disassemble(program))) == container.dumps(program)


HEAD = """\
.program name="p" dram_size_bytes=4096 code_address=0
.hardware "edge-128"
.layer name="l" op="add" unit="dma" workload={"kind": "move"}
"""


IMAGE = ".image address=0 size_bytes=4\n"


def test_a_program_written_by_hand() -> None:
    program = assemble(
        HEAD
        + """
        ; two copies
        dma.copy source_space=dram source=4000 size=4
          dma.copy target_space=dram target=4001 size=4 wait dma0>=1   ; and back

        .constants 8           ; some
        0x0 01 02 03         ; bytes of the first
        0x6 ff
        .end
        """
        + ".image address=3840 size_bytes=8\n"
    )
    assert program.hardware == hardware("edge-128")
    assert program.constants == bytes([1, 2, 3, 0, 0, 0, 255, 0])
    assert program.instructions == 2
    assert program.layer_of.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ".hardware is missing"),
        ('.hardware "edge-128"\n', ".program: name is missing"),
        (".hardwear\n", 'line 1: ".hardwear" is not a directive, did you mean .hardware?'),
        (
            "\n.x\n",
            'line 2: ".x" is not a directive, known are .program, .hardware, .for, .constants, .input, .output, '
            ".layer, .host_call, .buffer, .image, .state, .area, .spared, .end",
        ),
        (HEAD + "dma.cpy size=4\n", 'line 4: "dma.cpy" is not an instruction, did you mean dma.copy?'),
        (HEAD + "\n\ndma.copy size=0\n", "line 6: dma.copy: size is 0; it may be 1 or more"),
        (
            HEAD + "ctl.barrier\ndma.copy size=4 wait mac>=1\n",
            "line 5: dma.copy: waits for 1 completions of mac, which executes 0 instructions",
        ),
        (
            HEAD + "dma.copy target=2097150 size=4\n",
            "line 4: dma.copy: bytes 2097150..2097153 lie outside the scratchpad of 2097152 bytes",
        ),
        (HEAD + ".for x\n", 'line 4: .for takes the number of a layer, not "x"'),
        (HEAD + ".for -1\n", 'line 4: .for takes the number of a layer, not "-1"'),
        (HEAD + ".for 3\nctl.barrier\n", "layer 3 does not exist; there are 1"),
        (HEAD + ".program name=\n", "line 4: .program: name: not valid JSON: Expecting value at character 5"),
        (HEAD + ".program name\n", 'line 4: .program: "name" is not NAME=VALUE'),
        (HEAD + '.program name="q"\n', "line 4: .program: name is given twice"),
        (
            HEAD + ".program code_adress=1\n",
            "line 4: .program: code_adress: unknown field, did you mean code_address?",
        ),
        (
            HEAD + ".program code_space=-1\n",
            "line 4: .program: code_space: -1 is not a whole number from 0 to 2^48 - 1",
        ),
        (HEAD + '.layer name="x" name="x"\n', "line 4: .layer: name stands twice"),
        (HEAD + '.layer name="x"\n', "line 4: .layer: op: is missing"),
        (
            HEAD + '.layer name="x" op="y" unit="dma" workload={"kind":"gemm","macs":1.5}\n',
            "line 4: .layer: workload.macs: 1.5 is not a whole number from 0 to 2^48 - 1",
        ),
        (HEAD + ".hardware\n", "line 4: the block that begins here has no .end"),
        (
            HEAD + ".hardware\n.end\n",
            "line 4: .hardware: 1 fault: name: is missing, must be text of 1 to 64 characters",
        ),
        (HEAD + '.hardware "edge-1"\n', 'line 4: .hardware: "edge-1" is not one of edge-32, '),
        (HEAD + ".hardware 3\n", "line 4: .hardware: 3 is not one of edge-32, "),
        (HEAD + '.hardware "edge-128" x\n', 'line 4: .hardware: "x" is not NAME=VALUE'),
        (HEAD + '.hardware "edge-128"\n', "line 4: .hardware: hardware is given twice"),
        (
            HEAD + '.hardware\nname = "x"\n= 3\n.end\n',
            "line 4: .hardware: not valid TOML: Invalid statement (at line 6, column 1)",
        ),
        (
            HEAD + '.hardware\nname = "x"\n[vector]\nlane = 3\n.end\n',
            "line 4: .hardware: 1 fault: vector.lane: unknown key, did you mean lanes?",
        ),
        (HEAD + ".constants many\n", 'line 4: .constants takes the number of bytes, not "many"'),
        (HEAD + ".constants 4\n", "line 4: the block that begins here has no .end"),
        (
            HEAD + ".constants 4\n.end\n.constants 4\n.end\n",
            "line 6: .constants stands twice, first in line 4",
        ),
        (
            HEAD + ".constants 4\n.end\n",
            "line 4: .constants: 4 bytes of constants for images of 0 bytes",
        ),
        (
            HEAD + ".image address=0 size_bytes=4097\n.constants 4097\n.end\n",
            "line 5: .constants: the image at 0 with 4097 bytes lies outside the 4096 bytes of dram",
        ),
        (
            HEAD + f".constants {10**30}\n.end\n",
            f"line 4: .constants: {10**30} bytes of constants for images of 0 bytes",
        ),
        (
            HEAD + ".constants 4\n0x0 0g\n.end\n",
            'line 5: .constants: "0x0 0g" is not a position and bytes in hexadecimal',
        ),
        (
            HEAD + ".constants 4\nhello\n.end\n",
            'line 5: .constants: "hello" is not a position and bytes in hexadecimal',
        ),
        (
            HEAD + IMAGE + ".constants 4\n0x0 01\n0x3 0102\n.end\n",
            "line 7: .constants: 2 bytes at 0x3 lie outside 0x1..0x4, which the rows before have left",
        ),
        (
            HEAD + IMAGE + ".constants 4\n0x2 01\n0x1 01\n.end\n",
            "line 7: .constants: 1 bytes at 0x1 lie outside 0x3..0x4, which the rows before have left",
        ),
        (
            '.program name="p" dram_size_bytes=1000000000000 code_address=0\n'
            + HEAD.split("\n", 1)[1]
            + ".image address=0 size_bytes=500000000000\n.constants 500000000000\n.end\n",
            "line 5: .constants: the image at 0 with 500000000000 bytes lies outside the 67108864 bytes of dram",
        ),
    ],
)
def test_faults_name_their_line(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        assemble(text)
    said = str(caught.value)
    assert said == message or (message.endswith(", ") and said.startswith(message))


@pytest.mark.slow
@examples(100)
@given(st.data())
def test_damaged_text_gives_a_line_or_a_program(data: st.DataObject) -> None:
    lines = disassemble(PROGRAM).split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(lines) - 1))
        line = lines[position]
        cut = data.draw(st.integers(0, len(line)))
        lines[position] = (
            line[:cut] + data.draw(st.text(max_size=4)) + line[cut + data.draw(st.integers(0, 3)) :]
        )
    try:
        assemble("\n".join(lines))
    except ProgramError as fault:
        assert "\n" not in str(fault)  # noqa: PT017


@pytest.mark.parametrize(
    ("former", "today"),
    [
        ("vec.mean outer=2 count=3 inner=4 high=9",
         "vec.reduce function=sum outer=2 parts=1 middle=1 count=3 inner=4 high=9"),
        ("vec.pool maximum=maximum int16=yes int16_high=9", "vec.pool format=int16 function=maximum high=9"),
        ("vec.float_pool fused=fused", "vec.pool format=as_float32 fused=fused"),
        ("vec.real_pool function=l2", "vec.pool format=float16 function=l2"),
        ("vec.real_pool element=float32", "vec.pool format=float32"),
        ("vec.compare relation=less rows=3 scale=exact", "vec.binary function=less rows=3 scale=exact"),
        ("vec.compare rows=3", "vec.binary function=equal rows=3"),
        ("vec.float_binary a_scale=7 wait mac>=1", "vec.binary format=as_float32 a_multiplier=7 wait mac>=1"),
        ("vec.float_softmax function=fused", "vec.softmax format=as_float32 fused=fused"),
        ("vec.log_softmax back=5", "vec.softmax function=log_softmax back=5 signed=int8"),
        ("vec.rescale signed=int8 int16_input=yes", "vec.convert source=int16 target=int8"),
        ("vec.real_convert element=float32 target=float32 zero=3",
         "vec.convert source=int8 target=float32 input_zero=3 output_zero=3"),
    ],
)  # fmt: skip
def test_names_of_the_version_before_are_read(former: str, today: str) -> None:
    assert parse_instruction(former) == parse_instruction(today)
    with pytest.raises(ProgramError, match=f'{former.split()[0]}: "x" is not a field'):
        parse_instruction(f"{former.partition(' wait')[0]} x=1")
