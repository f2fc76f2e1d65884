"""npusim verify: equal models, and faults of layers, of the machine and of LiteRT put in on purpose."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim import models
from npusim.cli import typer_app as cli
from npusim.isa.base.errors import FormatError, NpusimError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph import reference as graph_reference
from npusim.kernels.operator.operator import Call, Operator
from npusim.verification import litert as litert_reference
from npusim.verification import peers, verification

from ...json_documents import faults
from ...litert.live import needs_litert
from ...litert.rows import model

MODEL = "digits_cnn"


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `npusim verify ARGUMENTS`."""
    found = CliRunner().invoke(cli.app, ["verify", *arguments])
    return found.exit_code, found.stdout, found.stderr


@needs_litert
def test_a_model_that_is_equal(tmp_path: Path) -> None:
    target = tmp_path / "verdicts.json"
    status, out, err = run(MODEL, "--inputs", "2", "--seed", "5", "--json", str(target))
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "digits_cnn on edge-128 and in LiteRT 2.3.0 (BUILTIN_REF), 2 sets of inputs",
        "  layers   10 tensors: 10 equal; 15 400 bytes compared with LiteRT",
        "  machine  2 outputs: 20 bytes compared with the layers",
        "equal",
    ]
    written = json.loads(target.read_text())
    assert not faults("verification", written)
    assert (written["equal"], written["compared_tensors"], written["first"]) == (True, 20, None)
    assert written["tensors"][0]["verdict"] == "equal"


@needs_litert
def test_inputs_are_those_of_a_run() -> None:
    graph = npusim.load(MODEL)
    given = [np.zeros(graph.tensors[index].type.shape, np.int8) for index in graph.inputs]
    found = npusim.verify(MODEL, "edge-32", given)
    assert (found.hardware, found.samples, found.equal) == ("edge-32", 1, True)
    with pytest.raises(NpusimError, match=r"^inputs: 0 given, the model has 1 input"):
        npusim.verify(MODEL, inputs=[])
    with pytest.raises(NpusimError, match=r"^0 sets of inputs; may be 1 or more$"):
        npusim.verify(MODEL, samples=0)


@pytest.mark.slow
@needs_litert
def test_floats_are_close_and_undefined_rows_do_not_count(tmp_path: Path) -> None:
    verdicts = set()
    for code, dtype in (
        ("CONV_2D", "float32"),
        ("SOFTMAX", "float32"),
        ("CUSTOM TFLite_Detection_PostProcess", "uint8"),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", "int8"),
    ):
        path = tmp_path / "model.tflite"
        for seed in range(3):
            path.write_bytes(model(code, dtype, seed))
            found = npusim.verify(path)
            assert found.equal, (code, dtype, seed, found.first)
            verdicts |= {row.verdict for row in found.tensors}
    assert verdicts == {"equal", "close"}


Reference = Callable[[Call, Sequence[Array | None]], list[Array]]


def with_fault(monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    """The references of an operator give one element that is one too large."""
    real = graph_reference.operator

    def wrong(reference: Reference) -> Reference:
        def compute(call: Call, values: Sequence[Array | None]) -> list[Array]:
            results: list[Any] = [each.copy() for each in reference(call, values)]
            results[0].reshape(-1)[3] += 1
            return results

        return compute

    def operator(name: str) -> Operator:
        entry = real(name)
        return replace(entry, reference=wrong(entry.reference)) if name == op else entry

    monkeypatch.setattr(graph_reference, "operator", operator)


@pytest.mark.slow
@needs_litert
def test_a_layer_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = npusim.load(MODEL)
    node = next(each for each in graph.nodes if each.op == "average_pool_2d" or each.op == "mean")
    with_fault(monkeypatch, node.op)
    found = npusim.verify(MODEL)
    first = found.first
    assert first is not None
    assert (first.place, first.layer, first.op, first.sample) == ("layer", node.name, node.op, 0)
    assert first.npusim == first.litert + 1
    assert (
        np.ravel_multi_index(first.index, graph.tensors[node.outputs[0]].type.shape),
        first.differing,
    ) == (3, 1)
    # only that layer computes otherwise; those behind it follow or come out the same
    assert [row.layer for row in found.tensors if row.verdict == "different"] == [node.name]
    status, out, _ = run(MODEL)
    assert status == 1
    assert f'first difference: inputs 0, layer "{node.name}" ({node.op}), tensor ' in out
    assert "1 of " in out.splitlines()[-1]


@pytest.mark.slow
@needs_litert
def test_a_machine_that_differs_is_told_from_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    real = verification.simulate

    def wrong(program: Any, inputs: Any, **options: Any) -> Any:
        result = real(program, inputs, **options)
        outputs: list[Any] = [each.copy() for each in result.outputs]
        outputs[-1].reshape(-1)[0] ^= 1  # of the compiled model, and where all tensors are outputs
        return replace(result, outputs=outputs)

    monkeypatch.setattr(verification, "simulate", wrong)
    found = npusim.verify(MODEL)
    graph = npusim.load(MODEL)
    assert found.first is not None
    assert (found.first.place, found.first.layer) == ("machine", graph.nodes[-1].name)
    assert found.count("equal") == len(found.tensors)
    assert "the machine gives" in run(MODEL)[1].splitlines()[-1]


# What it refuses


def test_without_litert_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert_reference, "find_spec", lambda name: None)
    status, out, err = run(MODEL)
    assert (status, out) == (2, "")
    assert err == (
        "npusim: needs LiteRT: pip install ai-edge-litert==2.3.0; it has wheels for Python 3.11 to 3.14 on Linux "
        "(x86-64, aarch64), Windows (x86-64) and macOS (arm64)\n"
    )


@needs_litert
def test_files_that_it_does_not_take(tmp_path: Path) -> None:
    program, text = tmp_path / "p.npu", tmp_path / "text.tflite"
    npusim.save_program(npusim.compile(npusim.load(MODEL)), program)
    with pytest.raises(NpusimError, match=r"give the model that it was compiled from$"):
        npusim.verify(program)
    text.write_text("not a model")
    with pytest.raises(FormatError, match=r"is not a TensorFlow Lite file, which is what LiteRT reads$"):
        npusim.verify(text)
    with pytest.raises(FormatError, match=r"no such file$"):
        npusim.verify(tmp_path / "missing.tflite")


@needs_litert
def test_a_model_that_litert_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_model", lambda path, sizes: (b"nothing", npusim.load(MODEL)))
    with pytest.raises(litert_reference.LiteRTError, match=rf"^{MODEL}: LiteRT refuses the model: "):
        npusim.verify(MODEL)


@needs_litert
def test_a_model_that_litert_does_not_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert_reference, "_COMMAND", ("-c", "import os; os.abort()"))
    with pytest.raises(litert_reference.LiteRTError, match=r"its process ended with SIGABRT$"):
        npusim.verify(MODEL)


def test_every_built_in_model_is_one_that_litert_reads() -> None:
    assert all(models.path_or_bytes(name)[4:8] == b"TFL3" for name in models.names())


def test_the_extra_is_the_version_that_messages_name() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text("utf-8"))
    [requirement] = project["project"]["optional-dependencies"]["litert"]
    assert requirement.partition(";")[0] == litert_reference.PACKAGE
