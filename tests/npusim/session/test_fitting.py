"""A model that does not fit on a machine: the message names a setting and a preset that were tried."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.isa.base.errors import CompileError, NpusimError
from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.models.writer import ModelWriter, per_tensor
from npusim.session.fitting import remedy

TRIED = "; tried: --set scratchpad.size_kib=4096 or --hw stm32n6 fits"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Input and output of 1.5 MiB each, which the Ethos-U presets keep in their 2 MiB."""
    writer = ModelWriter("large")
    x = writer.input("x", TensorType("int8", (1, 512, 768, 4), per_tensor(0.05, 0)))
    path = tmp_path / "large.tflite"
    path.write_bytes(writer.finish([writer.unary("TANH", x, per_tensor(1 / 128, 0))]))
    return path


def command(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "compile"])
def test_what_is_named_fits(large: Path, name: str) -> None:
    words = [name, large, *(["--timing-only"] if name == "run" else ["-o", large.with_suffix(".npu")])]
    status, said = command(*words, "--hw", "ethos-u55-128")
    assert status == 2
    assert said.endswith(f"{TRIED}\n")
    assert said.count("\n") == 1
    setting, preset = said.strip().removesuffix(" fits").partition("; tried: ")[2].split(" or ")
    assert command(*words, "--hw", "ethos-u55-128", *shlex.split(setting))[0] == 0
    assert command(*words, *shlex.split(preset))[0] == 0


@pytest.mark.slow
def test_a_public_network_is_told_what_fits(shared: Path) -> None:
    model = shared / "models" / "coral_deeplabv3_mnv2_dm05_pascal_quant.tflite"
    status, said = command("run", model, "--hw", "ethos-u55-128", "--timing-only")
    assert (status, said.endswith(f"{TRIED}\n")) == (2, True)


def test_nothing_is_named_that_does_not_fit() -> None:
    tried: list[str] = []

    def compiled(machine: Hardware) -> None:
        tried.append(f"{machine.name} {machine.scratchpad.size_kib}")
        raise NpusimError("no")

    machine = npusim.hardware("edge-128")
    assert remedy(CompileError("enlarge memory.l2.size_kib"), machine, compiled) == ""
    assert [name.split()[0] for name in tried] == ["stm32n6", "mobile-1024"]
    tried.clear()
    assert remedy(CompileError("enlarge scratchpad.size_kib"), machine, compiled) == ""
    assert [name.split()[-1] for name in tried[:3]] == ["4096", "8192", "16384"]
