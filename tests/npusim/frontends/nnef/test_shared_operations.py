"""The operations of the reference material, compiled and run: every case, quantized ones byte for byte."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.frontend import builder_for
from npusim.frontends.nnef import document, nnef_reader, tensor_file
from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.graph import NCHW
from tests.examples import some


def cases(folder: Path, least: int) -> Iterator[tuple[dict[str, Any], Any]]:
    """The cases of a folder, a third of them by day, each with the archive of arrays. There are `least` or more."""
    lines = (folder / "cases.jsonl").read_text().splitlines()
    assert len(lines) >= least
    with np.load(folder / "data.npz") as archive:
        for line in some(lines, len(lines) // 3, folder.name):
            yield json.loads(line), archive


def agrees(case: dict[str, Any], archive: Any, folder: Path) -> bool:
    """Whether a run gives what the case expects, within its tolerance."""
    inputs = {name: archive[f"{case['id']}/in/{name}"] for name in case["inputs"]}
    outputs = npusim.run(folder, inputs=inputs).outputs
    assert outputs is not None
    tolerance = case.get("tolerance", 0)
    for name, found in zip(case["outputs"], outputs, strict=True):
        wanted = archive[f"{case['id']}/out/{name}"]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return False
        if not np.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
            return False
    return True


@pytest.mark.slow
def test_operations_give_what_others_give(shared: Path, tmp_path: Path) -> None:
    wrong = []
    for case, archive in cases(shared / "nnef/ops", 372):
        folder = tmp_path / case["id"]
        folder.mkdir()
        (folder / "graph.nnef").write_text(case["graph"])
        for label in case["variables"]:
            file = folder / f"{label}.dat"
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(tensor_file.dump(archive[f"{case['id']}/var/{label}"]))
        if not agrees(case, archive, folder):
            wrong.append(case["id"])
    assert wrong == []


@pytest.mark.slow
def test_quantized_operations_give_the_bytes_of_litert(shared: Path, tmp_path: Path) -> None:
    wrong = []
    for case, archive in cases(shared / "nnef/quantized_ops", 208):
        folder = tmp_path / case["id"]
        folder.mkdir()
        for name, text in case["files"].items():
            (folder / name).write_bytes(base64.b64decode(text) if name.endswith(".dat") else text.encode())
        if not agrees(case, archive, folder):
            wrong.append(case["id"])
    assert wrong == []


@pytest.mark.slow
def test_converted_networks_give_the_bytes_and_take_the_cycles_of_their_tflite(shared: Path) -> None:
    """The transposes that the converter put around images move nothing."""
    files = sorted((shared / "nnef/converted").glob("*.tgz"))
    assert len(files) >= 5
    for file in files:
        name = file.name.removesuffix(".nnef.tgz")
        with np.load(shared / f"golden/{name}.npz") as golden:
            for k in range(3):
                run = npusim.run(file, inputs=[golden[f"in{k}_0"]])
                assert run.outputs is not None
                np.testing.assert_array_equal(run.outputs[0], golden[f"out{k}_0"], strict=True)
        assert run.cycles == npusim.run(shared / f"models/{name}.tflite", timing_only=True).cycles


def test_provisional_documents_compute_what_the_final_ones_do(shared: Path, tmp_path: Path) -> None:
    documents = shared / "nnef/documents"
    count = 0
    with np.load(documents / "provisional.npz") as archive:
        for line in (documents / "provisional.jsonl").read_text().splitlines():
            case = json.loads(line)
            folder = tmp_path / case["id"]
            folder.mkdir()
            (folder / "graph.nnef").write_text(case["provisional"])
            count += 1
            assert agrees({**case, "tolerance": 1e-5}, archive, folder), case["id"]
    assert count >= 14


@pytest.mark.parametrize("name", ["alexnet", "googlenet", "vgg"])
def test_structures_are_timed(shared: Path, name: str) -> None:
    file = shared / f"nnef/khronos_examples/{name}.nnef"
    hardware = npusim.hardware("edge-128", ["dram.size_mib=1024"])
    run = npusim.run(file, hw=hardware, timing_only=True)
    assert run.cycles > 1_000_000


def test_documents_with_impossible_shapes_are_refused_at_their_place(shared: Path) -> None:
    refused = 0
    for line in (shared / "nnef/documents/illegal.jsonl").read_text().splitlines():
        case = json.loads(line)
        if case["rule"] != "S1":
            continue
        with pytest.raises(
            NpusimError, match=r"^graph\.nnef, line \d+, column \d+: .* of .*rule S1"
        ) as raised:
            nnef_reader.graph_of(document.loads(case["files"]["graph.nnef"]), builder_for(case["id"], NCHW))
        assert len(str(raised.value).splitlines()) == 1
        refused += 1
    assert refused >= 18
