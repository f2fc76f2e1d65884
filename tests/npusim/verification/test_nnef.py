"""npusim verify beside the Khronos runtime for documents in floats, beside LiteRT for those with codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.isa.base.errors import NpusimError
from npusim.verification import khronos

from ...litert.live import needs_litert
from ..frontends.nnef.models import entry, folder

pytest.importorskip("nnef", reason="the Khronos runtime is not installed: pip install 'npusim[nnef]'")

RNG = np.random.default_rng(0)
WEIGHTS = {"w": RNG.standard_normal((8, 4, 3, 3), np.float32), "b": RNG.standard_normal((1, 8), np.float32)}
BODY = """c = conv(x, w, b, padding = [(1,1),(1,1)]); r = relu(c);
p = max_pool(r, size = [1,1,2,2], stride = [1,1,2,2], padding = [(0,0),(0,0),(0,0),(0,0)], border = 'ignore');
q = clamp(p, 0.1, 0.6); m = mean_reduce(q, axes = [2,3]); y = softmax(m, axes = [1]);"""


@pytest.mark.slow
def test_layers_are_compared_by_the_names_of_the_graph(tmp_path: Path) -> None:
    path = folder(tmp_path / "net", BODY, variables=WEIGHTS)
    found = npusim.verify(path, samples=2)
    assert found.equal
    assert {row.tensor: row.verdict for row in found.tensors if row.verdict != "not kept"}.keys() == set(
        "xrpqmy"
    )
    assert found.close == 1e-4
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("net on edge-128 and in the Khronos runtime ")
    assert "within 1e-4 of the largest" in done.stdout


@pytest.mark.slow
def test_own_fragments_are_lowered(tmp_path: Path) -> None:
    text = """version 1.0;
extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;
fragment twice( a: tensor<scalar> ) -> ( b: tensor<scalar> ) { b = a + a; }
graph net( x ) -> ( y ) { x = external(shape = [1,4]); h = twice(x); y = h * 3.0; }
"""
    (tmp_path / "net.nnef").write_text(text)
    found = npusim.verify(tmp_path / "net.nnef")
    assert found.equal
    assert {row.tensor for row in found.tensors if row.verdict == "equal"} >= {"h", "y"}


@needs_litert
def test_codes_are_compared_with_litert(tmp_path: Path) -> None:
    quant = entry("x", 0.05) + entry("y", 0.1, 3)
    path = folder(tmp_path / "net", "y = add(x, x);", quant=quant)
    found = npusim.verify(path, samples=3)
    assert (found.other, found.kernels, found.equal) == ("LiteRT", "BUILTIN_REF", True)
    assert found.count("equal") == len(found.tensors) > 0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("version 1.0\ngraph net( x ) -> ( y )\n{ x = external(shape = [1,4])\ny = relu(x) }\n",
         "is in the provisional dialect, which the Khronos runtime does not read"),
        ("version 1.0;\ngraph net( x ) -> ( y )\n{ x = external(shape = [0,4]); y = relu(x); }\n",
         "the Khronos runtime takes whole shapes that stand in the document"),
        ("version 1.0;\ngraph net( x ) -> ( y )\n{ x = external(shape = [1,4]);"
         " w = variable(shape = [1,4], label = 'w'); y = add(x, w); }\n", 'has no data'),
    ],
)  # fmt: skip
def test_documents_that_the_runtime_does_not_take(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "net.nnef").write_text(text)
    with pytest.raises(NpusimError) as raised:
        npusim.verify(tmp_path / "net.nnef", sizes={"x": (1, 4)})
    assert fault in str(raised.value)


def test_a_runtime_that_dies_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path / "net", "y = relu(x);")
    monkeypatch.setattr(khronos, "_COMMAND", ("-c", "import os; os.abort()"))
    with pytest.raises(NpusimError, match="the Khronos runtime does not run the model: status -6"):
        npusim.verify(path)


def test_without_the_runtime_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path / "net", "y = relu(x);")
    monkeypatch.setattr(khronos, "find_spec", lambda name: None)
    with pytest.raises(
        NpusimError, match="verifying an NNEF model needs nnef, which is not installed: pip install"
    ):
        npusim.verify(path)


@pytest.mark.slow
def test_a_layer_that_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path / "net", BODY, variables=WEIGHTS)
    real = khronos.Apart.run

    def run(self: Any, inputs: Any) -> Any:
        values = dict(real(self, inputs))
        values["p"] = values["p"] + np.float32(1)
        return values

    monkeypatch.setattr(khronos.Apart, "run", run)
    found = npusim.verify(path)
    assert found.first is not None
    assert found.first.layer == "p"
