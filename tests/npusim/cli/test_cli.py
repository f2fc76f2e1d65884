"""The command line: what each command prints and writes, and one line and a status for every mistake."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from npusim import models
from npusim.cli import typer_app as cli_app
from npusim.cli.base import Progress
from npusim.cli.commands import COMMANDS, help_text
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.transformer.published import BLOCKS, BY_NAME
from npusim.isa.base.tensor import TensorType
from npusim.models.writer import ModelWriter
from npusim.numbers.area import area
from npusim.reports.words import quantities
from npusim.session import api

from ...command_line import command
from ...json_documents import faults
from ...yardstick import process_cost


def process(
    *words: str, code: str = "from npusim.cli.app import main; main()"
) -> subprocess.CompletedProcess[str]:
    """Run a command in a fresh process."""
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a built-in model."""
    path = tmp_path_factory.mktemp("models") / "digits.tflite"
    path.write_bytes(models.path_or_bytes("digits_cnn"))
    return path


# What the commands do


def test_run_prints_the_summary(digits: Path) -> None:
    done = command("run", digits)
    assert (done.status, done.err) == (0, "")
    for words in ("digits on edge-128", "Latency", "powerUsage", "Hottest layers", "Energy, by component"):
        assert words in done.out


def test_run_writes_every_file(digits: Path, tmp_path: Path) -> None:
    output, numbers, layers, trace = (tmp_path / name for name in ("o.npz", "r.json", "l.csv", "t.json"))
    done = command("run", digits, "--output", output, "--json", numbers, "--csv", layers, "--trace", trace)
    assert done.status == 0
    result = api.run(digits)
    with np.load(output, allow_pickle=False) as written:
        assert written.files == ["out0"]
        assert written["out0"].dtype == np.int8
        assert np.array_equal(written["out0"], result.outputs[0])
    plain = json.loads(numbers.read_text())
    assert plain["cycles"]["total"] == result.cycles
    assert layers.read_text().count("\n") == len(plain["layers"]) + 1
    assert json.loads(trace.read_text())["otherData"]["cycles"] == result.cycles
    assert sorted(os.listdir(tmp_path)) == ["l.csv", "o.npz", "r.json", "t.json"]


def test_run_draws_the_network(digits: Path, tmp_path: Path) -> None:
    """What the drawing is, tests/npusim/nnadapter/test_dot.py has."""
    drawing = tmp_path / "network.dot"
    assert command("run", digits, "--dot", drawing).status == 0
    assert drawing.read_text() == Model.of(api.load(digits)).dot()
    program = tmp_path / "digits.npu"
    assert command("compile", digits, "-o", program).status == 0
    done = command("run", program, "--dot", drawing)
    assert done.status == 2
    assert done.err.endswith("digits.npu is a compiled program, which has no operators; give the model\n")
    done = command("run", digits, "digits_cnn", "--dot", drawing)
    assert (done.status, done.err) == (
        2,
        "npusim: --dot: goes with one model on one machine; this is a table of 2 models by 1 machine\n",
    )


@pytest.mark.slow
def test_two_runs_write_equal_json_but_for_wall_times(digits: Path, tmp_path: Path) -> None:
    found = []
    for name in ("a.json", "b.json"):
        assert command("run", digits, "--json", tmp_path / name).status == 0
        plain = json.loads((tmp_path / name).read_text())
        assert all(seconds > 0 for seconds in plain.pop("wall_s").values())
        found.append(json.dumps(plain))
    assert found[0] == found[1]


@pytest.mark.slow
def test_timing_only_counts_the_same_cycles(digits: Path, tmp_path: Path) -> None:
    cycles = []
    for options in ([], ["--timing-only"]):
        assert command("run", digits, "--json", tmp_path / "r.json", *options).status == 0
        plain = json.loads((tmp_path / "r.json").read_text())
        del plain["wall_s"], plain["provenance"]  # which says that no data was executed
        cycles.append(plain)
    assert cycles[0] == cycles[1]


def _float_model(code: str) -> bytes:
    writer = ModelWriter("float")
    image = writer.input("image", TensorType("float32", (1, 4, 4, 2)))
    return writer.finish(
        [writer.operator(code, (image,), TensorType("float32", (1, 4, 4, 2)), name="result")]
    )


def test_a_float_model_runs_on_the_host_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "float.tflite"
    path.write_bytes(_float_model("RELU"))
    done = command("run", path, "--output", tmp_path / "out.npz")
    assert done.status == 0
    assert "On the host, 1 of 1 layer: nothing of this model runs on the NPU" in done.out
    assert np.load(tmp_path / "out.npz")["out0"].min() == 0.0


@pytest.mark.slow
def test_inputs_by_name_and_seed(digits: Path, tmp_path: Path) -> None:
    images, _ = models.digits_test()
    name = api.compile(api.load(digits)).inputs[0].name
    np.savez(tmp_path / "in.npz", **{name: images[:1]})
    done = command("run", digits, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    assert done.status == 0
    expected = api.run(digits, inputs=[images[:1]]).outputs[0]
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], expected)
    assert command("run", digits, "--seed", "7", "--output", tmp_path / "out.npz").status == 0
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], api.run(digits, seed=7).outputs[0])


@pytest.mark.slow
def test_compile_then_run_gives_the_same_result(digits: Path, tmp_path: Path) -> None:
    done = command("compile", digits, "--hw", "edge-64", "-o", tmp_path / "d.npu")
    assert done.status == 0
    assert "digits for edge-64, " in done.out
    found = []
    for model, options in ((digits, ("--hw", "edge-64")), (tmp_path / "d.npu", ())):
        out, numbers = tmp_path / "o.npz", tmp_path / "r.json"
        assert command("run", model, *options, "--output", out, "--json", numbers).status == 0
        plain = json.loads(numbers.read_text())
        # What was given, a model or a program, is in the provenance; only a model has levers in its answer.
        del plain["wall_s"], plain["provenance"], plain["answer"]
        found.append((plain, np.load(out)["out0"].tobytes()))
    assert found[0] == found[1]
    assert command("run", tmp_path / "d.npu", "--hw", "edge-64").status == 0
    (tmp_path / "d.npu").rename(tmp_path / "renamed")
    assert command("run", tmp_path / "renamed").status == 0


def test_a_program_refuses_another_hardware(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.npu"
    assert command("compile", digits, "-o", path).status == 0
    done = command("run", path, "--hw", "edge-256")
    assert done.status == 2
    assert done.err.startswith(f'npusim: {path}: compiled for "edge-128", and "edge-256" differs in ')
    assert "mac_array.columns" in done.err
    assert done.err.endswith("run it without --hw, or compile the model again for the other hardware\n")


def test_disasm_and_asm_give_the_same_bytes(digits: Path, tmp_path: Path) -> None:
    npu, asm, again = tmp_path / "d.npu", tmp_path / "d.asm", tmp_path / "e.npu"
    assert command("compile", digits, "-o", npu).status == 0
    assert command("disasm", npu, "-o", asm).status == 0
    assert command("disasm", npu).out == asm.read_text()
    assert "mac.convolve" in asm.read_text()
    assert command("asm", asm, "-o", again).status == 0
    assert again.read_bytes() == npu.read_bytes()


def test_disasm_of_a_layer(digits: Path, tmp_path: Path) -> None:
    program = tmp_path / "d.npu"
    assert command("compile", digits, "-o", program).status == 0
    whole, code = command("disasm", program).out, command("disasm", program, "--code").out
    begin = whole.index(".for 0")
    assert code == whole[begin : whole.index("\n\n.constants")] + "\n"
    by_name, by_number = (command("disasm", program, "--layer", layer).out for layer in ("conv", "5"))
    assert by_name == by_number
    lines = by_name.splitlines()
    assert lines[0] == '.for 5  ; conv_2d "conv"'
    assert set(lines[1:]) < set(code.splitlines())
    assert sum(line.lstrip().startswith("mac.convolve") for line in lines) > 0
    done = command("disasm", program, "--layer", "sten")
    assert (done.status, done.err) == (
        2,
        "npusim: --layer sten: no layer has this name; did you mean stem? it may also be 0 to 9\n",
    )


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize("words", [("hw", "list"), ("models",), ("ops", "abs"), ("run", "digits_cnn")])
def test_json_on_standard_output_stands_alone(words: tuple[str, ...], tmp_path: Path) -> None:
    plain = command(*words)
    file = command(*words, "--json", tmp_path / "file")
    done = command(*words, "--json", "-")
    assert (plain.status, file.status, done.status, done.err) == (0, 0, 0, "")
    there, here = json.loads((tmp_path / "file").read_text()), json.loads(done.out)
    assert {key: value for key, value in here.items() if key != "wall_s"} == {
        key: value for key, value in there.items() if key != "wall_s"
    }
    assert command(*words).out.splitlines()[:5] == plain.out.splitlines()[:5]


def test_two_files_on_standard_output_are_refused() -> None:
    done = command("run", "digits_cnn", "--json", "-", "--csv", "-")
    assert (done.status, done.out) == (2, "")
    assert done.err == "npusim: --csv -: is also --json; give each a file of its own\n"


def test_short_help_and_completion() -> None:
    assert command("run", "-h").out == command("run", "--help").out
    # The completion is that of the shell which calls.
    for shell in filter(shutil.which, ("bash", "zsh")):
        call = f"{shlex.quote(sys.executable)} -m npusim --show-completion && true"
        done = subprocess.run([shell, "-c", call], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "_NPUSIM_COMPLETE" in done.stdout


def test_hw_list_show_check(tmp_path: Path) -> None:
    listed = command("hw", "list")
    assert "edge-128" in listed.out
    assert "500 MHz" in listed.out
    row = next(line for line in listed.out.splitlines() if line.startswith("edge-128 "))
    edge = api.hardware("edge-128")
    assert f" {2 * 128 * 500e6 * 1e-12:g} {quantities.area(area(edge).total)} " in " ".join(row.split())
    # The memories that hold something: the DRAM of GAP9, which none of the chip's networks uses, is not there.
    memories = {line.split()[0]: " ".join(line.split()) for line in listed.out.splitlines()}
    assert " 2048 KiB DRAM 0.5 GB/s 1 x " in memories["edge-128"]
    assert " 128 KiB l2 2.96 GB/s 1 x " in memories["gap9"]
    assert " 128 KiB l2 1.92 GB/s 1 x " in memories["gap9-low"]
    shown = command("hw", "show", "edge-128")
    (tmp_path / "mine.toml").write_text(shown.out)
    checked = command("hw", "check", tmp_path / "mine.toml")
    assert checked.out == f'{tmp_path / "mine.toml"}: "edge-128" is a valid hardware description\n'


def test_models_and_ops() -> None:
    assert "mobilenet_v2" in command("models").out
    operators = command("ops").out
    assert "TensorFlow Lite" in operators
    assert "CONV_2D" in operators
    assert "on the host only." in operators


@pytest.mark.slow
def test_capabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Path) -> None:
    """With a small model in place of the reference workloads, which take seconds each."""
    real = api.prepare
    monkeypatch.setattr(api, "prepare", lambda model, hw, **options: real(digits, hw, **options))
    done = command("capabilities", "--json", tmp_path / "c.json")
    assert done.status == 0
    assert "PerformanceInfo of edge-128" in done.out
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["cells"]["quantized8"]["execTime"] > 0
    assert not faults("capabilities", written)


def test_the_schema_of_one_document_and_of_all() -> None:
    one, all_of_them = (json.loads(command("schema", *words).out) for words in (("job",), ()))
    assert one["anyOf"] == [{"$ref": "#/$defs/job"}]
    assert len(all_of_them["anyOf"]) > 5
    done = command("schema", "jobs")
    assert (done.status, done.out) == (2, "")
    assert "jobs: no document has this name; may be run, job, " in done.err


@pytest.mark.slow
def test_a_search_is_not_slower(tmp_path: Path, digits: Path) -> None:
    cycles = []
    for effort in ("fast", "12"):
        target = tmp_path / f"{effort}.json"
        assert command("run", digits, "--timing-only", "--effort", effort, "--json", target).status == 0
        cycles.append(json.loads(target.read_text())["cycles"]["total"])
    assert cycles[1] <= cycles[0]


@pytest.mark.slow
def test_demo_classifies_the_digits() -> None:
    done = command("demo")
    assert done.status == 0
    line = next(line for line in done.out.splitlines() if line.startswith("Accuracy"))
    right = int(line.split(": ")[1].split()[0])
    assert "of 200 test images." in line
    assert right >= 194
    assert "Every inference took" in line


def test_version() -> None:
    assert command("--version").out.startswith("npusim 0.")


# Mistakes of the user: one line, status 2


def _missing(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    return ["run", "none.tflite"], "none.tflite: no such file"


def _misspelt(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    first, second, *others = (*models.names(), *BY_NAME, *[block.name for block in BLOCKS])
    assert len(others) > 20  # so many are not all shown
    near = f"did you mean mobilenet_v2? built-in are {first}, {second}, ..., {others[-1]}; npusim models lists them\n"
    return ["run", "mobilnet_v2"], f"mobilnet_v2: neither a file nor a built-in model, {near}"


def _truncated(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    (folder / "short.tflite").write_bytes(digits.read_bytes()[:1000])
    return ["run", folder / "short.tflite"], f"{folder}/short.tflite: "


def _empty(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    (folder / "empty.tflite").touch()
    return ["run", folder / "empty.tflite"], f"{folder}/empty.tflite: is empty"


def _folder(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    words: list[str | Path] = ["compile", folder, "-o", folder / "x.npu"]
    return words, f"{folder}: is a folder, not a model; npusim run FOLDER tries every model below it"


def _preset(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    return ["run", digits, "--hw", "edge-129"], 'no hardware is named "edge-129", did you mean edge-128?'


def _five_faults(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    text = "name = 1\nclock_mhz = -1\nrows = 4\n[dram]\nlatency_ns = true\n[scratchpad]\nsize_kib = 0.5\n"
    (folder / "bad.toml").write_text(text)
    return ["hw", "check", folder / "bad.toml"], f"{folder}/bad.toml: 5 faults: clock_mhz: -1 is not a number"


def _input_name(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    np.savez(folder / "in.npz", picture=np.zeros((1, 8, 8, 1), np.int8))
    words = f'{folder}/in.npz: input "picture": the model has no such input; it has 1 input: in0 = "'
    return ["run", digits, "--input", folder / "in.npz"], words


def _input_type(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    np.savez(folder / "in.npz", in0=np.zeros((1, 8, 8, 1), np.float32))
    return ["run", digits, "--input", folder / "in.npz"], f'{folder}/in.npz: input "'


def _no_target_folder(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    path = folder / "no" / "r.json"
    return ["run", digits, "--json", path], f"{path}: there is no folder {folder}/no"


def _same_target(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    path = folder / "r.json"
    words = f"--trace {path}: is also --json; give each a file of its own"
    return ["run", digits, "--json", path, "--trace", path], words


def _overwrite_model(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    return ["run", digits, "--json", digits], f"--json {digits}: is also MODEL; give each a file of its own"


def _no_data(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    words = "--output: --timing-only executes no data; give one or the other"
    return ["run", digits, "--timing-only", "--output", folder / "o.npz"], words


def _assembly_missing(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    return ["asm", "none.asm", "-o", folder / "p.npu"], "none.asm: no such file"


def _unsupported_operator(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    (folder / "diagonal.tflite").write_bytes(_float_model("MATRIX_DIAG"))
    return ["run", folder / "diagonal.tflite"], ""


def _newer_program(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    path = folder / "new.npu"
    assert command("compile", digits, "-o", path).status == 0
    data = bytearray(path.read_bytes())
    data[8] = 99
    path.write_bytes(data)
    return ["run", path], f"{path}: "


def _damaged_program(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    path = folder / "damaged.npu"
    assert command("compile", digits, "-o", path).status == 0
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return ["run", path], f"{path}: "


def _bad_program(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    (folder / "bad.npu").write_bytes(b"not a program")
    return ["run", folder / "bad.npu"], f"{folder}/bad.npu: "


def _effort(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    words = "effort 'most': may be fast, high, or how many schedules to try, 0 or more"
    return ["run", digits, "--effort", "most"], words


def _compiled_already(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    path = folder / "p.npu"
    assert command("compile", digits, "-o", path).status == 0
    words = f"{path}: compiled already, effort 3 has nothing to search; give the model"
    return ["run", path, "--effort", "3"], words


def _overwrite_configuration(folder: Path, digits: Path) -> tuple[list[str | Path], str]:
    path = folder / "config.json"
    path.write_text('{"model_type": "llama"}')
    words = f"-o {path}: is also MODEL; give each a file of its own"
    return ["compile", f"{path}:int4-32", "-o", path], words


def _two_formats(tmp_path: Path, digits: Path) -> tuple[list[str | Path], str]:
    words = "--weights int8: qwen2_0.5b:int4-32 names a format already; give one of them"
    return ["run", "qwen2_0.5b:int4-32", "--weights", "int8"], words


MISTAKES: list[Callable[[Path, Path], tuple[list[str | Path], str]]] = [
    _missing, _misspelt, _truncated, _empty, _folder, _preset, _five_faults, _input_name, _input_type,
    _no_target_folder, _same_target, _overwrite_model, _overwrite_configuration, _no_data, _assembly_missing,
    _bad_program, _unsupported_operator, _newer_program, _damaged_program, _effort, _compiled_already,
    _two_formats,
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__.strip("_"))
def test_mistakes_are_one_line_and_status_2(
    mistake: Callable[[Path, Path], tuple[list[str | Path], str]], tmp_path: Path, digits: Path
) -> None:
    before = digits.read_bytes()
    words, message = mistake(tmp_path, digits)
    done = command(*words)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith(f"npusim: {message}")
    assert done.err.count("\n") == 1
    assert digits.read_bytes() == before


@pytest.mark.parametrize("words", [["run"], ["run", "x", "--bad"], ["walk"], ["run", "x", "--seed", "-1"]])
def test_usage_errors_are_status_2(words: list[str]) -> None:
    done = command(*words)
    assert done.status == 2
    assert "Usage: " in done.err


def test_commands_are_offered() -> None:
    assert {"compare", "explore"} <= set(command("--help").out.split())
    assert {"--report", "--what-if"} <= set(command("run", "--help").out.split())


def test_what_can_be_written_is_written(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that vanishes during the run costs that file only."""
    from npusim.base import files

    gone = tmp_path / "gone"
    monkeypatch.setattr(files, "require_writable", lambda path: None)
    done = command("run", digits, "--json", gone / "r.json", "--csv", tmp_path / "l.csv")
    assert done.status == 2
    assert "Latency" in done.out
    assert done.err == f"npusim: {gone / 'r.json'}: cannot be written: No such file or directory\n"
    assert (tmp_path / "l.csv").exists()


# Faults of ours, interrupts, pipes


def _fail(fault: BaseException) -> Callable[..., None]:
    def prepare(*_: object, **__: object) -> None:
        raise fault

    return prepare


def test_our_fault_is_status_1_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "prepare_any", _fail(KeyError("x")))
    done = command("run", "digits_cnn")
    assert done.status == 1
    assert done.err == (
        "npusim: KeyError: 'x'. This is a fault of npusim, not of your input: please report it with the "
        "command; NPUSIM_DEBUG=1 shows where it happened\n"
    )


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "prepare_any", _fail(KeyError("x")))
    monkeypatch.setenv("NPUSIM_DEBUG", "1")
    done = command("run", "digits_cnn")
    assert done.status == 1
    assert "Traceback (most recent call last)" in done.err


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "not enough memory for this model on this computer"),
        (PermissionError(13, "Permission denied", "model.tflite"), 2, "model.tflite: Permission denied"),
        (ValueError("a\nb\x1b[31m"), 1, "ValueError: a\\nb\\x1b[31m. This is a fault of npusim"),
    ],
)
def test_other_faults(fault: BaseException, status: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "prepare_any", _fail(fault))
    done = command("run", "digits_cnn")
    assert done.status == status
    assert done.err.startswith(f"npusim: {words}")
    assert done.err.count("\n") == 1


ENDLESS = """
import signal
from npusim.cli import app
from npusim.session import api

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may have it ignored
simulate = api.simulate

def endless(*given):
    print("ready", flush=True)
    while True:
        simulate(*given)

api.simulate = endless
app.main()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_a_real_run() -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out, err) == (130, "", "npusim: interrupted\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_files_are_written_though_stdout_is_full(digits: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "npusim", "run", str(digits), "--json", str(tmp_path / "r.json")],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "npusim: standard output: No space left on device\n")
    assert json.loads((tmp_path / "r.json").read_text())["cycles"]["total"] > 0


@pytest.mark.slow
def test_names_that_stdout_cannot_encode(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "mod\u00e9l.tflite"
    path.write_bytes(digits.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "npusim", "run", str(path), "--json", "/dev/stdout"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mod\\xe9l on edge-128\n")
    assert "####" in done.stdout
    assert json.loads(done.stdout[done.stdout.index("\n{") :])["model"] == "mod\u00e9l"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_closed_pipe_is_quiet() -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "npusim", "hw", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.wait(60) == 141
    assert running.stderr.read() == b""
    running.stderr.close()


# Cost


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from npusim.cli.typer_app import app\n"
        "try: app()\n"
        "finally: print([m for m in ('numpy','rich','pydantic','simpy','tflite','pandas') if m in sys.modules])"
    )
    done = process("--help", code=code)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 52, 60, 61, 62, 63, 70, 75, 80, 120])
def test_the_help_is_the_text_of_typer(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help is written without typer, which is asked in a process: its runner for tests has a width of its own."""
    monkeypatch.setenv("COLUMNS", str(columns))
    code = "from npusim.cli.typer_app import app; app(prog_name='npusim')"
    assert f"{help_text(columns)}\n" == process("--help", code=code).stdout


@pytest.mark.slow
def test_help_is_fast() -> None:
    # 8.6 times a Python that does nothing, 0.1 s on a quiet computer.
    limit = 12
    assert process_cost("-m", "npusim", "--help", limit=limit) < limit


@pytest.mark.slow
def test_run_imports_only_what_it_uses(digits: Path) -> None:
    code = (
        "import sys; from npusim.cli.typer_app import app\n"
        "try: app()\n"
        "finally: print([m for m in ('pandas','sklearn','rich.progress','rich.markdown','asyncio',"
        "'npusim.reports.run.chrome_trace') if m in sys.modules])"
    )
    done = process("run", str(digits), code=code)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "[]"


def test_import_npusim_is_free() -> None:
    done = process(
        code="import sys, npusim; print([m for m in sys.modules if m.startswith(('numpy', 'npusim.'))])"
    )
    assert done.stdout == "[]\n"


# Progress


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_appears_on_a_terminal_after_a_while_and_goes_away() -> None:
    now = 0.0
    terminal = Terminal()
    with Progress("simulating", terminal, lambda: now) as step:
        assert step is not None
        for done, now in ((10, 0.4), (20, 0.55), (21, 0.6), (50, 0.7)):  # noqa: B007
            step(done, 100)
    assert terminal.getvalue() == "\rsimulating  20 %\rsimulating  50 %\r\x1b[K"


def test_progress_is_silent_elsewhere() -> None:
    file = StringIO()
    with Progress("simulating", file) as step:
        assert step is None
    assert file.getvalue() == ""


@pytest.mark.parametrize(("name", "module", "text"), COMMANDS)
def test_the_help_of_each_command_begins_as_the_list_says(name: str, module: str, text: str) -> None:
    begin, _, _ = (cli_app.load(module).commands[name].help or "").partition("\n\n")
    assert begin.replace("\n", " ") == text
