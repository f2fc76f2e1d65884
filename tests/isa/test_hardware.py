"""Hardware: presets, files, inheritance, and what a wrong file is told."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from npusim.isa.base.errors import LONGEST_MESSAGE, HardwareError, NpusimError, nearest
from npusim.isa.base.toml_file import listed
from npusim.isa.engines.systolic.timing import array_shape
from npusim.isa.hardware.file import (
    change,
    from_dict,
    hardware,
    list_presets,
    to_dict,
    to_toml,
)
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameters
from npusim.isa.hardware.rules import RULES, broken_rules

PRESETS = (
    # name, MAC/cycle, MHz, scratchpad KiB, off-chip GB/s, host core, threads
    ("edge-32", 32, 500, 2048, 0.5, "cortex-m7", 1),
    ("edge-64", 64, 500, 2048, 0.5, "cortex-m7", 1),
    ("edge-128", 128, 500, 2048, 0.5, "cortex-m7", 1),
    ("edge-256", 256, 500, 2048, 0.5, "cortex-m7", 1),
    ("edge-512", 512, 1000, 512, 3.75, "cortex-a53", 1),
    ("edge-128-float", 128, 500, 2048, 0.5, "cortex-m7", 1),
    ("ethos-u55-32", 32, 500, 2048, 0.5, "cortex-m7", 1),
    ("ethos-u55-64", 64, 500, 2048, 0.5, "cortex-m7", 1),
    ("ethos-u55-128", 128, 500, 2048, 0.5, "cortex-m7", 1),
    ("ethos-u55-256", 256, 500, 2048, 0.5, "cortex-m7", 1),
    ("gap9", 162, 370, 128, 0.5, "cortex-m7", 1),
    ("gap9-low", 162, 240, 128, 0.5, "cortex-m7", 1),
    ("mobile-1024", 1024, 1000, 2048, 15.0, "cortex-a76", 4),
    ("mobile-4096", 4096, 1000, 8192, 30.0, "cortex-a76", 4),
    ("rk3576", 1024, 950, 2112, 15.1, "cortex-a73", 4),
    ("rk3588", 1024, 1000, 2112, 29.0, "cortex-a76", 4),
    ("stm32n6", 300, 1000, 3840, 0.4, "cortex-m55", 1),
    ("cortex-m7", 32, 400, 2048, 0.5, "cortex-m7", 1),
)


def written(folder: Path, text: str, name: str = "chip.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def message(of: object) -> str:
    """The one line that a hardware file is refused with, without its folder."""
    with pytest.raises(HardwareError) as caught:
        hardware(of)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(f"{of.parent}/", "") if isinstance(of, Path) else text


def test_presets_are_listed_by_family_and_size() -> None:
    assert list_presets() == tuple(name for name, *_ in PRESETS)


@pytest.mark.parametrize(("name", "macs", "mhz", "kib", "gb_per_s", "core", "threads"), PRESETS)
def test_presets_keep_their_contract(
    name: str, macs: int, mhz: float, kib: int, gb_per_s: float, core: str, threads: int
) -> None:
    chip = hardware(name)
    assert chip.name == name
    assert chip.description
    assert (chip.macs_per_cycle, chip.clock_mhz) == (macs, mhz)
    assert (chip.scratchpad.size_kib, chip.dram.bandwidth_gb_per_s) == (kib, gb_per_s)
    assert (chip.host.core, chip.host.threads) == (core, threads)


@pytest.mark.parametrize("name", list_presets())
def test_presets_can_feed_their_array(name: str) -> None:
    chip = hardware(name)
    array, dram = chip.mac_array, chip.dram
    if array.kind == "systolic":
        assert array.ifm_bytes_per_cycle >= max(array.rows, 2 * array.columns)
        assert array.weight_bytes_per_cycle >= array.columns
    in_flight = dram.outstanding_requests * dram.burst_bytes
    assert in_flight / dram.latency_ns >= dram.bandwidth_gb_per_s, "latency bounds the bandwidth"


@pytest.mark.parametrize("name", list_presets())
def test_dictionary_and_toml_round_trip(name: str) -> None:
    chip = hardware(name)
    assert from_dict(to_dict(chip)) == chip
    assert from_dict(tomllib.loads(to_toml(chip))) == chip


def test_toml_round_trip_of_awkward_values() -> None:
    chip = change(
        hardware("edge-32"),
        {
            "description": 'quote " back\\slash \x7f \t ü',
            "dram.bandwidth_gb_per_s": 1e-05,
            "dram.latency_ns": 0.1,
        },
    )
    assert from_dict(tomllib.loads(to_toml(chip))) == chip


def test_operators_that_a_machine_lacks(tmp_path: Path) -> None:
    chip = hardware(written(tmp_path, 'extends = "edge-32"\nlacks_operators = ["softmax", "conv_2d"]'))
    assert chip.lacks_operators == ("softmax", "conv_2d")
    assert from_dict(tomllib.loads(to_toml(chip))) == chip == from_dict(to_dict(chip))
    assert change(chip, {"lacks_operators": []}).lacks_operators == ()


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ('"softmax"', '"softmax" is not a list of words of 64 small letters, digits and underscores at most'),
        ("[1]", "1 is not a list of words of 64 small letters, digits and underscores at most"),
        ('["Softmax"]', '"Softmax" is not a list of words'),
        ('["softmax", "add", "softmax"]', "names softmax more than once"),
    ],
)
def test_what_lacks_operators_may_not_be(tmp_path: Path, value: str, fault: str) -> None:
    told = message(written(tmp_path, f'extends = "edge-32"\nlacks_operators = {value}'))
    assert told.startswith(f"chip.toml: 1 fault: lacks_operators: {fault}")


def test_derived_figures() -> None:
    chip = hardware("edge-128")
    assert chip.dram_bytes_per_cycle == 1.0
    assert chip.scratchpad_bytes == 2 * 1024 * 1024
    assert array_shape(chip.mac_array).half_accumulators == 16 * 1024 // 4 // 2 // 8
    assert chip.cycles_of_ns(128.0) == 64
    assert chip.cycles_of_ns(128.1) == 65
    assert chip.us_of_cycles(500) == 1.0
    assert chip.seconds_of_cycles(500e6) == 1.0


def test_a_file_extends_a_preset_and_a_file(tmp_path: Path) -> None:
    base = written(tmp_path, 'extends = "edge-128"\n[scratchpad]\nsize_kib = 512\n', "base.toml")
    top = written(tmp_path, 'extends = "base.toml"\nclock_mhz = 400\n[mac_array]\nrows = 8\n', "top.toml")
    chip = hardware(top)
    assert (chip.name, hardware(base).name) == ("top", "base"), "a file without a name is named after itself"
    assert (chip.scratchpad.size_kib, chip.clock_mhz, chip.mac_array.rows) == (512, 400.0, 8)
    assert chip.scratchpad.banks == hardware("edge-128").scratchpad.banks
    assert change(hardware("edge-128"), {"name": "base", "scratchpad.size_kib": 512}) == hardware(base)


def test_five_faults_are_all_listed(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        extends = "edge-128"
        clock_mhz = -5
        [scratchpad]
        size_kib = "big"
        bank = 7
        [dram]
        row_bytes = 1000
        [technology]
        node_nm = 14
        """,
    )
    assert message(file) == (
        "chip.toml: 5 faults: "
        "clock_mhz: -5 is not a number from 0.001 to 10000; "
        "dram.row_bytes: 1000 is not a power of two, such as 512 or 1024; "
        "scratchpad.bank: unknown key, did you mean banks?; "
        'scratchpad.size_kib: "big" is not a whole number from 1 to 262144; '
        "technology.node_nm: 14 is not one of 28, 22, 16, 7"
    )


FAULTS = (
    # key of the file, value, what is said after "chip.toml: 1 fault: "
    ("clock_mhz", "0", "clock_mhz: 0 is not a number from 0.001 to 10000"),
    ("clock_mhz", "nan", "clock_mhz: NaN is not a number from 0.001 to 10000"),
    ("clock_mhz", "inf", "clock_mhz: Infinity is not a number from 0.001 to 10000"),
    ("clock_mhz", '"fast"', 'clock_mhz: "fast" is not a number from 0.001 to 10000'),
    ("dma.channels", "2.5", "dma.channels: 2.5 is not a whole number from 1 to 4"),
    ("dma.channels", "true", "dma.channels: true is not a whole number from 1 to 4"),
    ("mac_array.shadow_weights", "1", "mac_array.shadow_weights: 1 is not true or false"),
    ("host.clock_mhz", "-1", "host.clock_mhz: -1 is not a number from 0.001 to 10000"),
    ("dma", "3", "dma: 3 is not a table"),
    ("name", '""', 'name: "" is not text of 1 to 64 characters'),
    ("name", '"a\\nb"', "name: must be printable text on one line"),
    (
        "mac_array.dataflow",
        '"ws"',
        'mac_array.dataflow: "ws" is not one of weight_stationary, output_stationary, both',
    ),
    ("scratchpad_kib", "4", "scratchpad_kib: unknown key, did you mean scratchpad.size_kib?"),
    ("rows", "4", "rows: unknown key, did you mean mac_array.rows?"),
    ("extend", '"edge-32"', "extend: unknown key, did you mean extends?"),
    ("dram_latency", "1", "dram_latency: unknown key, did you mean dram.latency_ns?"),
    (
        "zzz",
        "1",
        "zzz: unknown key, known here: name, description, clock_mhz, lacks_operators, float32_rescale, ",
    ),
    ("zzz", "{}", "zzz: unknown key, known here: name, "),
    ("clock_ghz", "1", "clock_ghz: unknown key, did you mean clock_mhz?"),
    ("scratchpda.size_kib", "4", "scratchpda: unknown key, did you mean scratchpad?"),
    ("host.zzz", "4", "host.zzz: unknown key, known here: core, threads, clock_mhz, "),
    ("dram.burst_bytes", "48", "dram.burst_bytes: 48 is not a power of two, such as 32 or 64"),
    ("dram.banks", "12", "dram.banks: 12 is not a power of two, such as 8 or 16"),
    ("dram.row_bytes", "16", "dram.row_bytes: 16 is less than one burst (dram.burst_bytes = 32)"),
    ("dram.grant_bytes", "16", "dram.grant_bytes: 16 is less than one burst (dram.burst_bytes = 32)"),
    ("dram.size_mib", "1", "dram.size_mib: 1 is less than the scratchpad (2048 KiB)"),
    ("scratchpad.port_bytes", "12", "scratchpad.port_bytes: 12 is not a power of two, such as 8 or 16"),
    (
        "scratchpad.banks",
        "7",
        "scratchpad.banks: 7 does not divide 2097152 bytes into banks of whole 16-byte",
    ),
    ("scratchpad.size_kib", "3", "scratchpad.size_kib: 3 is too small for 128 multipliers, at least 4"),
    (
        "mac_array",
        "{ columns = 1024, accumulator_kib = 7 }",
        "mac_array.accumulator_kib: 7 cannot hold two rows of 1024 4-byte accumulators, at least 8",
    ),
    ("host.core", '"cortex-m8"', 'host.core: "cortex-m8" is not a known core; did you mean cortex-m85?'),
)


@pytest.mark.parametrize(("key", "value", "said"), FAULTS, ids=[f"{key}={value}" for key, value, _ in FAULTS])
def test_a_fault_is_named(tmp_path: Path, key: str, value: str, said: str) -> None:
    file = written(tmp_path, f'{key} = {value}\nextends = "edge-128"\n')
    assert message(file).startswith(f"chip.toml: 1 fault: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clock_mhz = \n", "chip.toml: line 1, column 13: not valid TOML: Invalid value"),
        ("clock_mhz = 1\n[dram\n", "chip.toml: line 2, column 6: not valid TOML: Expected ']'"),
        ("name = '", "chip.toml: end of file: not valid TOML"),
        ("a = " + "[" * 100_000, "chip.toml: nested too deeply"),
        ("a = " + "9" * 10_000, "chip.toml: not valid TOML"),
        ("#" * 2_000_000, "chip.toml: larger than 1048576 bytes"),
        ("extends = 3", "chip.toml: extends: 3 is not text"),
        ('extends = "chip.toml"', "chip.toml: extends: goes in a circle: chip.toml -> chip.toml"),
        ('extends = "edge-12"', 'chip.toml: extends: no hardware is named "edge-12", did you mean edge-128?'),
        ('extends = "gone.toml"', "chip.toml: extends: gone.toml: no such file"),
        (
            "\n".join(f"k{i} = 1" for i in range(1000)),
            "chip.toml: 1000 faults: k0: unknown key, known here: ",
        ),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    told = message(written(tmp_path, text))
    assert told.startswith(said)
    assert len(told) <= LONGEST_MESSAGE


def test_faults_are_listed_as_far_as_somebody_reads() -> None:
    assert listed({"b": "two", "a": "one"}) == "2 faults: a: one; b: two"
    short = {f"k{number:02}": "x" * 15 for number in range(99)}  # 20 characters each: 16 of them are 320
    assert listed(short).endswith("; k15: xxxxxxxxxxxxxxx; and 83 more")
    assert listed({"a": "x" * 5_000, "b": "y"}).endswith("x; and 1 more")  # the first one is whole


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    file = tmp_path / "chip.toml"
    file.write_bytes(b"name = '\xff'")
    assert message(file) == "chip.toml: not UTF-8 text at byte 8"


def test_circle_of_two_files(tmp_path: Path) -> None:
    written(tmp_path, 'extends = "b.toml"', "a.toml")
    written(tmp_path, 'extends = "a.toml"', "b.toml")
    assert message(tmp_path / "a.toml") == "b.toml: extends: goes in a circle: a.toml -> b.toml -> a.toml"


def test_a_fault_of_the_base_names_the_base(tmp_path: Path) -> None:
    written(tmp_path, "clock_mhz = 0", "base.toml")
    top = written(tmp_path, 'extends = "base.toml"')
    assert message(top) == "base.toml: 1 fault: clock_mhz: 0 is not a number from 0.001 to 10000"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("edge-12", 'no hardware is named "edge-12", did you mean edge-128?; it may be edge-32, edge-64, '),
        ("mobil-4096", 'no hardware is named "mobil-4096", did you mean mobile-4096?; it may be '),
        ("x\ny", 'no hardware is named "x\\ny"; it may be '),
        ("./edge-128", "edge-128: no such file"),
    ],
)
def test_unknown_names_point_to_the_nearest_preset(name: str, said: str) -> None:
    assert message(name).startswith(said)


@pytest.mark.parametrize("values", [[], 3, None, "x"])
def test_from_dict_wants_a_table(values: object) -> None:
    with pytest.raises(NpusimError, match=r"^p\.npu: .* is not a table$"):
        from_dict(values, "p.npu")  # type: ignore[arg-type]


def test_from_dict_misses_the_name() -> None:
    with pytest.raises(HardwareError, match=r"^hardware: 1 fault: name: is missing, must be text of 1 to 64"):
        from_dict({})


def test_change_refuses_what_a_file_may_not_say() -> None:
    chip = hardware("edge-128")
    with pytest.raises(
        HardwareError, match=r"^x: 1 fault: scratchpad\.siz_kib: unknown key, did you mean size_kib"
    ):
        change(chip, {"scratchpad.siz_kib": 4}, "x")
    with pytest.raises(HardwareError, match=r"^hardware: 1 fault: clock_mhz\.x: unknown key"):
        change(chip, {"clock_mhz.x": 4})
    assert chip == hardware("edge-128"), "the original is untouched"


def test_rules_read_fields_that_exist() -> None:
    known = {parameter.path for parameter in parameters()}
    for rule in RULES:
        assert {rule.path, *rule.reads} <= known


def test_defaults_keep_every_rule() -> None:
    assert broken_rules(Hardware(name="default")) == {}


def test_every_parameter_is_documented() -> None:
    for parameter in parameters():
        assert parameter.description, parameter.path
        assert parameter.allowed, parameter.path


@pytest.mark.parametrize(
    ("word", "known", "found"),
    [
        ("edge-12", ("edge-512", "edge-128"), "edge-128"),  # as similar, but begins alike
        ("qqq", ("edge-512", "edge-128"), None),
        ("x", (), None),
    ],
)
def test_nearest(word: str, known: tuple[str, ...], found: str | None) -> None:
    assert nearest(word, known) == found


def test_reading_a_preset_loads_no_heavy_package() -> None:
    code = (
        "import sys; from npusim.isa.hardware.file import hardware; hardware('edge-128');"
        "print([m for m in ('numpy', 'simpy', 'rich', 'typer', 'tflite', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_keys_that_an_engine_type_does_not_read_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, 'extends = "ethos-u55-128"\n[mac_array]\nrows = 128\ndataflow = "both"\n')
    assert message(file) == (
        "chip.toml: 2 faults: mac_array.dataflow: a block engine does not read it; only systolic engines do; "
        "mac_array.rows: a block engine does not read it; its size is mac_array.block.micro_height, micro_width and "
        "micro_channels"
    )
    file = written(tmp_path, 'extends = "edge-128"\n[mac_array.block]\nmicro_height = 2\n')
    assert message(file) == (
        "chip.toml: 1 fault: mac_array.block.micro_height: a systolic engine does not read it; its size is "
        "mac_array.rows and columns"
    )


@pytest.mark.parametrize(
    ("preset", "path", "value", "without"),
    [
        ("edge-128", "vector.float_cycles", 2, "vector.float16_lanes or vector.float32_lanes"),
        ("gap9", "dram.bandwidth_gb_per_s", 1.0, "a DRAM, which holds what no [[memory]] does"),
        (
            "gap9",
            "memory.l2.banks",
            4,
            "rows that take time or energy to open (row_miss_ns above 0, or off the chip)",
        ),
        ("stm32n6", "memory.flash.write_pj_per_byte", 1.0, "activations or io in the memory (its holds)"),
        ("cortex-m7", "overlap", "none", "an NPU that computes something (lacks_operators)"),
    ],
)
def test_keys_that_need_something_are_refused_without_it(
    preset: str, path: str, value: object, without: str
) -> None:
    with pytest.raises(HardwareError) as caught:
        change(hardware(preset), {path: value})
    assert str(caught.value) == f"hardware: 1 fault: {path}: nothing reads it without {without}"


def test_a_key_counts_as_soon_as_what_it_needs_is_there() -> None:
    chip = change(hardware("edge-128"), {"vector.float32_lanes": 4, "vector.float_cycles": 2})
    assert chip.vector.float_cycles == 2
    # It goes with what it needs, so that the two machines are equal again.
    assert change(chip, {"vector.float32_lanes": 0}) == hardware("edge-128")


def test_a_file_may_change_the_engine_type_alone(tmp_path: Path) -> None:
    chip = hardware(written(tmp_path, 'extends = "edge-128"\nname = "c"\n[mac_array]\nkind = "block"\n'))
    assert chip.mac_array.rows == Hardware(name="c").mac_array.rows
    assert "rows" not in to_toml(chip).partition("[mac_array]")[2].partition("[")[0]
    shown = written(tmp_path, to_toml(chip), "shown.toml")
    assert hardware(shown) == chip


@pytest.mark.parametrize("name", list_presets())
def test_what_is_shown_of_a_preset_is_read_again(tmp_path: Path, name: str) -> None:
    assert hardware(written(tmp_path, to_toml(hardware(name)))) == hardware(name)
