"""What of versions before 11 is refused; the rest is compared in `test_beside_onnxruntime`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import npusim
from tests.npusim.frontends.onnx.models import model_of, single, w, written
from tests.npusim.frontends.onnx.older_singles import PLANES

pytest.importorskip("onnx", reason="onnx is not installed")

REFUSED = (
    (
        single("BatchNormalization", PLANES, *[w(3, 6, 8, low=0.5)] * 4, opset=7, spatial=0),
        'node "node" (BatchNormalization): spatial is 0; npusim has one scale for each channel',
    ),
    (
        single("Pad", PLANES, opset=9, pads="everywhere"),
        'node "node" (Pad): pads is no list of numbers',
    ),
    (
        single("Add", PLANES, w(3), opset=6, broadcast=1, axis=1),
        'has operations of version 6 (opset_import), and "Add" was another one then; npusim and the onnx that is '
        "installed read 7 to ",
    ),
)


@pytest.mark.parametrize(("case", "text"), REFUSED, ids=lambda case: getattr(case, "name", ""))
def test_what_version_11_cannot_say(tmp_path: Path, case: Any, text: str) -> None:
    path = written(tmp_path, model_of(case))
    with pytest.raises(npusim.NpusimError) as fault:
        npusim.load(path)
    assert str(fault.value).removeprefix(f"{path}: ").startswith(text)
