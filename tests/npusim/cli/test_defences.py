"""Every command, every parameter: files are read by one function, outputs judged by one, text shown by one.

The commands are read from the application itself. A new parameter that names a file must be in a command line here, and
then it is fed what it must refuse.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import resource
import shutil
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner
from typer.utils import get_params_from_function

import npusim
from npusim import models
from npusim.cli.typer_app import COMMANDS as COMMAND_LIST
from npusim.cli.typer_app import app, load
from npusim.isa.base.errors import visible
from npusim.isa.base.tensor import TensorType
from npusim.isa.text import assembly
from npusim.models.writer import ModelWriter
from npusim.session import api

from ...test_rooms import modules

pytestmark = pytest.mark.usefixtures("one_figure")

LONGEST_MESSAGE = 400
SECONDS = 20
MOST_MORE_BYTES = 300 << 20

COMMANDS: dict[str, list[str]] = {
    "run": [
        "<models:model.tflite", "--hw", "<hw:chip.toml", "--input", "<input:in.npz", "--output", ">output",
        "--partition", "<partition:force.txt",
        "--json", ">json", "--csv", ">csv", "--trace", ">trace", "--dot", ">dot", "--report", "+report",
    ],
    "run#devices": [
        "<models:model.tflite", "--device", "<device:chip.toml", "--device", "npusim_host",
        "--input", "<input:in.npz", "--output", ">output", "--partition", "<partition:force.txt", "--print-partition",
        "--json", ">json", "--csv", ">csv", "--trace", ">trace", "--dot", ">dot", "--report", "+report",
    ],
    "run#cache": ["<models:model.tflite", "--hw", "<hw:chip.toml", "--cache", "+cache", "--json", ">json"],
    "run#system": [
        "<models:model.tflite", "--system", "<system:two.toml", "--inferences", "2", "--json", ">json",
    ],
    "run#table": [
        "<models:model.tflite", "<models:program.npu", "--hw", "<hw:chip.toml", "--hw", "edge-64",
        "--json", ">json", "--csv", ">csv", "--report", "+report",
    ],
    "serve": [
        "<models:model.tflite", "--requests", "<requests:requests.csv", "--hw", "<hw:chip.toml", "--json", ">json",
        "--csv", ">csv", "--report", "+report",
    ],
    "demo": ["--hw", "<hw:chip.toml"],
    "compile": [
        "<model:model.tflite", "--hw", "<hw:chip.toml", "-o", ">output", "--partition", "<partition:force.txt",
    ],
    "convert": ["<model:model.tflite", "-o", ">output"],
    "convert#onnx": ["<model:model.tflite", "--to", "onnx", "-o", ">output"],
    "convert#tflite": ["<model:model.tflite", "--to", "tflite", "-o", ">output"],
    "convert#hal": ["<model:model.tflite", "--to", "hal", "-o", ">output"],
    "quantize": ["<model:float.tflite", "--data", "<data:samples.npz", "-o", ">output", "--json", ">json"],
    "asm": ["<source:program.asm", "-o", ">output"],
    "disasm": ["<program:program.npu", "-o", ">output"],
    "capabilities": ["--hw", "<hw:chip.toml", "--json", ">json"],
    "schema": [],
    "compare": [
        "<runs:a.json", "<runs:b.json", "--json", ">json", "--csv", ">csv", "--html", ">html", "--report", "+report",
    ],
    "explore": [
        "<arguments:model.tflite", "<arguments:space.toml", "--study", "+study", "--dask", "tls://127.0.0.1:9",
        "--dask-tls-ca", "<dask_tls_ca:ca.pem", "--dask-tls-cert", "<dask_tls_cert:ca.pem",
        "--dask-tls-key", "<dask_tls_key:ca.pem",
    ],
    "study": ["+folder:done.study"],
    "verify": ["<model:model.tflite", "--input", "<input:in.npz", "--hw", "<hw:chip.toml", "--json", ">json"],
    "hw show": ["<name:chip.toml"],
    "hw check": ["<file:chip.toml"],
    "hw list": ["--json", ">json"], "models": ["--json", ">json"], "ops": ["--json", ">json"],
}  # fmt: skip
"""Command lines of each command: `<` reads a file, `>` writes one, `+` writes into a folder; then the parameter."""

PLAIN = {
    "names",
    "document",
    "shape",
    "layer",
    "format",
    "effort",
    "fail_if",
    "objective",
    "dask",
    "set_",
    "unknown",
    "weights",
    "host",
    "decide",
    "form",
    "scheme",
    "outside",
    "rate",
    "period_ms",
    "priority",
    "deadline_ms",
    "batching",
}
"""Parameters of text that name no file."""

PATHS = ("MODEL", "FILE", "DIR", "SPACE", "F", "F.npz", "P.npu", "P.asm", "F.csv", "F.pem", "A.json")
"""What parameters that name files are called in the help."""


class Slot:
    """A place in a command line for the name of a file."""

    def __init__(self, command: str, at: int) -> None:
        self.command, self.at = command, at
        word = COMMANDS[command][at]
        self.way = word[0]
        self.parameter, _, self.file = word[1:].partition(":")

    def __repr__(self) -> str:
        return f"{self.command}-{self.parameter}{self.at}"


def slots(*ways: str) -> list[Slot]:
    return [
        Slot(command, at)
        for command, words in COMMANDS.items()
        for at, word in enumerate(words)
        if word[0] in ways
    ]


READS, WRITES, FOLDERS = slots("<"), slots(">"), slots("+")


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command of the application by name, with its function."""
    for name, module, _ in COMMAND_LIST:
        command = load(module).commands[name]
        for below, each in getattr(command, "commands", {"": command}).items():
            yield f"{name} {below}".strip(), inspect.unwrap(each.callback)


def test_every_parameter_that_names_a_file_is_in_a_command_line_here() -> None:
    assert {name for name, _ in commands()} == {name.partition("#")[0] for name in COMMANDS}
    for name, function in commands():
        given = {slot.parameter for slot in slots(*"<>+") if slot.command.partition("#")[0] == name}
        for parameter, meta in get_params_from_function(function).items():
            kind = str(meta.annotation)
            metavar = str(getattr(meta.default, "metavar", None) or "")
            of_files = any(word.strip("[].") in PATHS for word in metavar.replace("|", " ").split())
            if "Path" in kind or ("str" in kind and of_files):
                assert parameter in given, f"npusim {name}: {parameter} names files; add it to COMMANDS"
            elif "str" in kind and parameter not in given and parameter not in PLAIN:
                raise AssertionError(
                    f"npusim {name}: does {parameter} name files? Say it in COMMANDS or PLAIN"
                )


# What there is to read


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of every kind, and the folder of a study; commands run in it."""
    (tmp_path / "model.tflite").write_bytes(models.path_or_bytes("digits_cnn"))
    (tmp_path / "base.toml").write_text('extends = "edge-64"\n')
    (tmp_path / "chip.toml").write_text('extends = "base.toml"\n')
    (tmp_path / "two.toml").write_text('name = "two"\n[[core]]\nhardware = "chip.toml"\ncount = 2\n')
    (tmp_path / "force.txt").write_text("# nothing\n")
    (tmp_path / "requests.csv").write_text("arrival_s\n0\n")
    (tmp_path / "float.tflite").write_bytes(_float_model("net"))
    np.savez(tmp_path / "samples.npz", in0=np.ones((2, 4, 4, 2), np.float32))
    np.savez(tmp_path / "in.npz", in0=models.digits_test()[0][:1])
    program = api.prepare(tmp_path / "model.tflite")[0]
    api.save_program(program, tmp_path / "program.npu")
    (tmp_path / "program.asm").write_text(assembly.disassemble(program))
    result = json.dumps(npusim.simulate(program, timing_only=True).to_dict())
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(result)
    (tmp_path / "space.toml").write_text('extends = "chip.toml"\n[parameters]\nvector.lanes = [4, 8]\n')
    (tmp_path / "ca.pem").write_text("-----BEGIN NOTHING-----\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(command: str, **named: str | Path) -> list[str]:
    """The words of a command line, with other files for some slots, by their number: at3=path."""
    words = command.partition("#")[0].split()
    for at, word in enumerate(COMMANDS[command]):
        if word[0] not in "<>+":
            words.append(word)
            continue
        slot = Slot(command, at)
        words.append(str(named.get(f"at{at}", slot.file or f"new.{slot.parameter}")))
    return words


class Late(Exception):
    """The command still runs."""


def refused(words: list[str], in_table: bool = False) -> str:
    """The line that a command ends with, which must be one, soon, with status 2 and in little memory.

    in_table: a table goes on without the model that is refused, so all that is said counts.
    """

    def late(*_: object) -> None:
        raise Late(" ".join(words))

    before = signal.signal(signal.SIGALRM, late)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.alarm(SECONDS)
    try:
        done = CliRunner().invoke(app, words)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert not isinstance(done.exception, Late), words
    assert done.exit_code == 2, (words, done.output, done.exception)
    assert in_table or done.stdout == "", words
    assert done.stderr.startswith("npusim: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert len(done.stderr) < LONGEST_MESSAGE
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10 < MOST_MORE_BYTES, words
    return " ".join((done.stdout + done.stderr).split()) if in_table else done.stderr


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


def _socket(path: Path) -> None:
    # A name of a socket has few characters.
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


HOSTILE = {
    "pipe": (_fifo, "is a pipe, not"),
    "socket": (_socket, "is a socket, not"),
    "folder": (Path.mkdir, "is a folder"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is a device, not"),
    "3 GiB": (_sparse, ""),
    "empty": (Path.touch, ""),
    "nothing": (lambda path: None, ""),
    "loop": (lambda path: path.symlink_to(path), ""),
    "noise": (lambda path: path.write_bytes(bytes(range(256)) * 20), ""),
}


@pytest.mark.cases(40)
@pytest.mark.parametrize("slot", READS, ids=repr)
@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_is_read_is_a_regular_file_of_bounded_size(slot: Slot, name: str, folder: Path) -> None:
    make, words = HOSTILE[name]
    hostile = folder / f"bad{Path(slot.file).suffix}"
    make(hostile)
    if slot.command == "verify":
        pytest.importorskip("ai_edge_litert")
    if name == "empty" and slot.file in ("chip.toml", "force.txt"):
        pytest.skip("an empty file is a hardware whose every key has its default, or forces nothing")
    of_a_run = slot.command.startswith("run") and slot.parameter == "models"
    if name == "folder" and of_a_run:
        words = "no model file below this folder"
    in_table = of_a_run and slot.command == "run#table" and name != "folder"
    said = refused(line(slot.command, **{f"at{slot.at}": hostile}), in_table)
    assert hostile.name in said
    assert words in said


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_files_name_are_read_in_the_same_way(name: str, folder: Path) -> None:
    make, words = HOSTILE[name]
    make(folder / "bad.toml")
    if name != "empty":  # which is a hardware file without a name, and says so below
        (folder / "chip.toml").write_text('extends = "bad.toml"\n')
        for command in ("run", "hw check", "explore", "compile"):
            said = refused(line(command))
            assert "bad.toml" in said
            assert words in said
    make(folder / "bad.tflite")
    text = 'extends = "edge-64"\nmodels = ["bad.tflite"]\n[parameters]\nvector.lanes = [4, 8]\n'
    (folder / "space.toml").write_text(text)
    assert "bad.tflite" in refused(["explore", "space.toml", "--study", "new"])


# What there is to write


def _inputs(command: str, folder: Path) -> dict[str, bytes]:
    files = {Slot(command, at).file for at, word in enumerate(COMMANDS[command]) if word[0] == "<"}
    if "chip.toml" in files or "space.toml" in files:
        files |= {"chip.toml", "base.toml"}
    return {name: (folder / name).read_bytes() for name in sorted(files)}


@pytest.mark.slow
@pytest.mark.cases(6)
@pytest.mark.parametrize("slot", WRITES, ids=repr)
def test_an_output_is_no_input_whatever_it_is_called(slot: Slot, folder: Path) -> None:
    if slot.command == "verify":
        pytest.importorskip("ai_edge_litert")
    (folder / "alias").symlink_to(folder)
    for name, content in _inputs(slot.command, folder).items():
        (folder / "link").symlink_to(name)
        os.link(folder / name, folder / "second")
        for path in (name, folder / name, "link", "second", folder / "alias" / name):
            assert "give each a file of its own" in refused(line(slot.command, **{f"at{slot.at}": path}))
        assert (folder / name).read_bytes() == content
        (folder / "link").unlink()
        (folder / "second").unlink()


@pytest.mark.cases(8)
@pytest.mark.parametrize("slot", WRITES, ids=repr)
def test_outputs_that_cannot_be_written_are_known_before_the_work(
    slot: Slot, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    for name in ("prepare", "prepare_any", "compile", "simulate", "load_program"):
        monkeypatch.setattr(api, name, work)
    if slot.command == "verify":
        pytest.importorskip("ai_edge_litert")
    (folder / "file").touch()
    for path, words in (
        (folder, "is a folder"),
        ("no/file", "there is no folder"),
        ("file/x", "there is no folder"),
    ):
        assert words in refused(line(slot.command, **{f"at{slot.at}": path}))


def test_two_outputs_are_two_files(folder: Path) -> None:
    for command in ("run", "run#table", "compare"):
        places = [slot.at for slot in WRITES if slot.command == command]
        for one, other in pairwise(places):
            said = refused(line(command, **{f"at{one}": "same", f"at{other}": folder / "same"}))
            assert "give each a file of its own" in said


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize("slot", FOLDERS, ids=repr)
def test_folders_are_folders_and_links_in_them_stay(slot: Slot, folder: Path) -> None:
    victim = folder / "victim"
    victim.write_text("mine")
    assert "is " in refused(line(slot.command, **{f"at{slot.at}": victim}))
    if slot.command != "study":
        assert "is a file" in refused(line(slot.command, **{f"at{slot.at}": victim / "below"}))
    made = folder / "made"
    made.mkdir()
    if slot.command in ("study", "explore"):
        made.rmdir()
        done = CliRunner().invoke(
            app, ["explore", "model.tflite", "space.toml", "--study", "made", "-j", "1"]
        )
        assert done.exit_code == 0, done.output
    for i, name in enumerate(_names(slot.command)):
        target = folder / f"there{i}"
        shutil.copytree(made, target)
        (target / name).unlink(missing_ok=True)
        (target / name).symlink_to(victim)
        said = refused(line(slot.command, **{f"at{slot.at}": target}))
        assert "is a symbolic link, which is not followed here" in said
        assert victim.read_text() == "mine"


def _names(command: str) -> list[str]:
    """The files that a command writes into its folder."""
    if command in ("run", "run#devices"):
        from npusim.reports.folder import files

        return [each.name for each in files()]
    if command in ("compare", "run#table"):
        from npusim.cli import compare as cli_compare
        from npusim.cli import run_table as cli_table

        return list((cli_compare if command == "compare" else cli_table).IN_FOLDER.values())
    if command == "serve":
        from npusim.cli import serve

        return list(serve.IN_FOLDER)
    if command == "run#cache":
        return []  # a token is computed late; tests/npusim/nnadapter/test_cache_folder.py has links of this name
    from npusim.study.study import ALWAYS

    return [*ALWAYS, "study.html"]


# What is shown

EVIL = "evil\x1b]0;title\x07\x1b[31m\u202e\u200b\u2066\x9b\r\nINJECTED\x7f\u00ad"


def _float_model(name: str) -> bytes:
    writer = ModelWriter(name)
    image = writer.input(name, TensorType("float32", (1, 4, 4, 2)))
    return writer.finish(
        [writer.operator("RELU", (image,), TensorType("float32", (1, 4, 4, 2)), name=f"result {name}")]
    )


@pytest.fixture
def evil(folder: Path) -> Path:
    """The same files, with names that a terminal would obey."""
    (folder / "model.tflite").write_bytes(_float_model(EVIL))
    program = api.prepare(folder / "model.tflite")[0]
    layers = tuple(replace(layer, name=EVIL, op=EVIL) for layer in program.layers)
    program = replace(program, name=EVIL, layers=layers)
    api.save_program(program, folder / "program.npu")
    result = json.loads((folder / "a.json").read_text())
    for name in ("a.json", "b.json"):
        (folder / name).write_text(json.dumps(_evil_texts(result)))
        result["clock"] = {EVIL: EVIL}
    (folder / "chip.toml").write_text(f'extends = "base.toml"\ndescription = {json.dumps(EVIL)}\n')
    return folder


def _evil_texts(value: Any, key: str = "") -> Any:
    """Every text of a result but those that say what it is."""
    if isinstance(value, dict):
        return {name: _evil_texts(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_evil_texts(item, key) for item in value]
    return f"{EVIL}{value}" if isinstance(value, str) and key not in ("unit", "bound_by") else value


def shown(*words: str) -> str:
    """What a command prints, which must be visible text and lines of its own alone."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 2, 3), (words, done.output, done.exception)
    for text in (done.stdout, done.stderr):
        hidden = {mark for mark in text if mark != "\n" and not visible(mark)}
        assert not hidden, (words, hidden)
        assert "\nINJECTED" not in text, (words, text)
    assert done.exit_code == 0 or done.stderr.count("\n") == 1, done.stderr
    return str(done.stdout + done.stderr)


@pytest.mark.slow
def test_names_are_shown_not_obeyed(evil: Path) -> None:
    shown("run", "model.tflite", "--hw", "chip.toml")
    assert "INJECTED" in shown("run", "program.npu")
    assert "INJECTED" in shown("disasm", "program.npu")
    assert "INJECTED" in shown("compare", "a.json", "b.json")
    assert "INJECTED" in shown("hw", "show", "chip.toml")
    assert "INJECTED" in shown("quantize", "model.tflite", "--data", "samples.npz", "-o", "q.tflite")
    shown("run", "model.tflite", "--what-if")
    shown("compile", "model.tflite", "-o", "p.npu")
    shown("compare", "a.json", "b.json", "--fail-if", "latency_ms>-5%")
    np.savez(evil / "in.npz", **{"a\x1b[31m\u202e\nINJECTED": np.zeros(3)})
    assert "INJECTED" in shown("run", "model.tflite", "--input", "in.npz")


def test_what_disasm_prints_is_what_it_writes(evil: Path) -> None:
    printed = shown("disasm", "program.npu")
    assert shown("disasm", "program.npu", "-o", "p.asm") == ""
    assert (evil / "p.asm").read_text() == printed
    assert shown("asm", "p.asm", "-o", "again.npu") == ""
    assert (evil / "again.npu").read_bytes() == (evil / "program.npu").read_bytes()


@pytest.mark.slow
def test_names_of_files_are_shown_not_obeyed(evil: Path) -> None:
    name = EVIL.replace("/", "")
    for command in COMMANDS:
        places = [slot for slot in READS if slot.command == command]
        for slot in places:
            if slot.command == "verify":
                continue
            missing = line(command, **{f"at{slot.at}": f"{name}{Path(slot.file).suffix}"})
            assert "INJECTED" in shown(*missing)
    (evil / f"{name}.tflite").write_bytes(_float_model(EVIL))
    assert "INJECTED" in shown("compile", f"{name}.tflite", "-o", f"{name}.npu")
    assert "INJECTED" in shown("run", f"{name}.npu")
    space = (
        '[parameters]\nvector.lanes = [4, 8]\n[models]\n"' + json.dumps(f"{name}.tflite")[1:-1] + '" = 1.0\n'
    )
    (evil / f"{name}.toml").write_text(space, "utf-8")
    assert "INJECTED" in shown("explore", f"{name}.toml", "--study", f"{name}.study", "-j", "1")
    assert "INJECTED" in shown("study", f"{name}.study")


@pytest.mark.parametrize(
    "words", [(EVIL,), ("run", f"--{EVIL}"), ("run", "digits_cnn", "--seed", EVIL), ("hw", EVIL)]
)
def test_mistakes_in_options_are_shown_not_obeyed(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert all(mark == "\n" or visible(mark) for mark in done.output), done.output


# Nobody goes round them


def _calls(file: Path) -> Iterator[tuple[int, str]]:
    """What a file calls, by its last name; methods as well."""
    text = file.read_text("utf-8")
    if not CALLED.search(text):
        return  # most files; parsing all of them takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "writer" and not isinstance(called, ast.Attribute):
                continue  # a variable, not csv.writer
            if isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "Study":
                continue  # Study.open reads by way of Folder
            yield node.lineno, name


ALLOWED = {
    "read_bytes": {"npusim.models.digits", "npusim.verification.litert"},
    "write_bytes": {"npusim.models.digits", "npusim.verification.litert"},
    # files of the package itself
    "read_text": {"npusim.isa.text.manual", "npusim.reports.page.page", "npusim.isa.hardware.agreement",
                  "npusim.isa.base.version"},
    "write_text": {"npusim.isa.text.manual"},
    "open": {
        "npusim.isa.base.user_file", "npusim.base.files", "npusim.study.folder",
        # files of the package itself, and calls that open no file
        "npusim.numbers.energy", "npusim.numbers.area", "npusim.cli.base", "npusim.base.npz",
        "npusim.nnadapter.hal.registry", "npusim.base.console", "npusim.isa.base.version",
        # archives in memory, and the memory of this process
        "npusim.frontends.nnef.nnef_container", "npusim.frontends.nnef.nnef_writer", "npusim.litert.process_memory",
    },
    "echo": set(), "Console": set(),
    "print": {"npusim.isa.text.manual", "npusim.models.digits", "npusim.verification.litert"},
    "writer": {"npusim.base.csv_text", "npusim.reports.folder"}, "DictWriter": set(),
    "fromfile": set(), "memmap": set(), "mmap": {"npusim.isa.base.user_file"}, "genfromtxt": set(), "loadtxt": set(),
}  # fmt: skip
"""Who may call what reads, writes and shows past the functions of this test, and nobody else."""

CALLED = re.compile(rf"\b({'|'.join(ALLOWED)})\s*\(")

PRINT_METHODS = "npusim.cli", "npusim.reports"


@pytest.mark.slow
def test_nobody_reads_writes_or_shows_past_them() -> None:
    # The doors: npusim.isa.base.user_file, npusim.base.{files, terminal, csv_text, npz}.
    found = [
        f"{file}:{number}: {name}"
        for module, file in modules()
        for number, name in _calls(file)
        if name in ALLOWED
        and module not in ALLOWED[name]
        # `console(...).print` is the method of the one console.
        and not (name == "print" and module.startswith(PRINT_METHODS))
    ]
    assert found == []
