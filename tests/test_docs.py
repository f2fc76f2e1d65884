"""The documents say what is: the README's commands and examples work and print what it shows."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

from npusim.isa.base.version import npusim_version
from npusim.verification import litert

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


generate = _generator()
contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


@pytest.mark.parametrize("document", generate.PAGES, ids=lambda path: path.name)
def test_pages_are_current(document: Path) -> None:
    assert document.read_text("utf-8") == generate.PAGES[document](), "run: python docs/generate.py"


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path == generate.LOSSES_PAGE else [])
        for path in generate.PARTS
    ],
    ids=lambda path: path.name,
)
def test_parts_of_documents_are_current(document: Path) -> None:
    page = document.read_text("utf-8")
    assert page == generate.PARTS[document](page), "run: python docs/generate.py"


@pytest.mark.slow
@pytest.mark.parametrize("document", generate.WITH_OUTPUT, ids=lambda path: path.name)
def test_documents_show_what_their_commands_and_examples_print(document: Path) -> None:
    if document == generate.NEEDS_LITERT and not litert.installed():
        pytest.skip(f"LiteRT is not installed here: pip install {litert.PACKAGE}")
    shown = generate.outputs(document.read_text("utf-8"))
    assert shown
    for each in shown:
        assert each.current, f"{each.source} prints\n{each.now}run: python docs/generate.py"


@pytest.mark.slow
def test_the_drawings_are_current() -> None:
    for file, drawing in importlib.import_module("drawings").drawings().items():
        assert file.read_text("utf-8") == drawing, "run: python docs/generate.py"


def test_an_output_that_is_no_longer_true_is_replaced() -> None:
    text = "a\n```python\nprint(1)\nprint(2)\n```\n\n```text\n7\n```\n```console\n$ npusim --version\n3\n...\n```\nb\n"
    assert generate.refreshed(text) == text.replace("7\n", "1\n2\n").replace(
        "3\n", f"npusim {npusim_version()}\n"
    )


def test_only_the_time_that_npusim_took_may_differ() -> None:
    def current(shown: str, now: str) -> bool:
        return bool(generate.Shown("$ npusim run", shown, now, 0, 0).current)

    assert current("Took load 0.27 s.\n", "Took load 1.35 s.\n")
    assert not current("Latency 0.27 s\n", "Latency 1.35 s\n")
    assert not current("a\n", "a\nb\n")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text("utf-8")) if "://" not in target]
    missing = [target for target in targets if not (document.parent / unquote(target)).exists()]
    assert not missing


def test_paths_that_documents_name_exist() -> None:
    folders = ("isa", "kernels", "scheduler", "npusim", "reports", "tests", "docs", "benchmarks")
    path = re.compile(rf"`((?:{'|'.join(folders)})/[\w./]*)`")
    added = {block.name for block in generate.blocks(contributing)}
    for document in DOCUMENTS:
        for name in path.findall(document.read_text("utf-8")):
            assert name in added or (ROOT / name).exists(), f"{document.name}: {name}"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with everything that CONTRIBUTING.md shows how to add."""
    folder = tmp_path_factory.mktemp("checkout")
    for room in ("npusim", "isa", "kernels", "scheduler", "reports"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for block in generate.blocks(contributing):
        if block.name == "isa/instructions/vector.py":
            rows = folder / block.name  # `Lookup` is the last one
            rows.write_text(f"{rows.read_text('utf-8')}\n\n{block.body}", "utf-8")
        elif "/" in block.name:
            (folder / block.name).write_text(block.body, "utf-8")
    table = folder / "kernels" / "table.py"
    _insert(table, "    # moves and type conversions\n", '    "tables.softsign": ("softsign",),\n')
    row = '    (0x35, Unit.VECTOR, "rows.Softmax"),\n'
    _insert(folder / "isa" / "instructions" / "table.py", row, '    (0x7E, Unit.VECTOR, "vector.Reverse"),\n')
    return folder


@pytest.mark.slow
def test_an_operator_is_added_as_contributors_are_told(copy: Path) -> None:
    assert re.search(r"^softsign +\S", _python(copy, "-m", "npusim", "ops"), re.MULTILINE)
    script = """
import numpy as np, npusim
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.table import operator

def run(kind, values):
    builder = GraphBuilder("one")
    x, parameters = builder.input("x", kind), operator("softsign").parameters()
    graph = builder.graph(builder.node("softsign", [x], [kind], parameters))
    result = npusim.simulate(npusim.compile(graph), [values])
    return result.layers[0].unit, result.outputs[0].tolist()

print(run(TensorType("float32", (2,)), np.float32([0, 1])))
print(run(TensorType("int8", (2,), Quantization((0.5,), (0,))), np.int8([0, 2])))
"""
    assert _python(copy, "-c", script).splitlines() == [
        "('host', [0.0, 0.5])",  # 1 / (1 + 1)
        "('vector', [0, 1])",  # 0.5 / 0.5
    ]


@pytest.mark.slow
def test_an_instruction_is_added_as_contributors_are_told(copy: Path) -> None:
    (copy / "docs").mkdir(exist_ok=True)
    _python(copy, "-m", "npusim.isa.text.manual")
    assert "### vec.reverse" in (copy / "docs" / "isa.md").read_text("utf-8")
    encode = (
        "from npusim.isa.instructions.table import decode; from npusim.isa.instructions.vector import Reverse; "
        "one = Reverse(input=3, output=64, size=10); print(decode(one.encode()) == one)"
    )
    assert _python(copy, "-c", encode) == "True\n"


@pytest.mark.slow
def test_a_preset_is_added_as_contributors_are_told(copy: Path) -> None:
    rows = [row.split()[:3] for row in _python(copy, "-m", "npusim", "hw", "list").splitlines()]
    assert ["edge-192", "192", "500"] in rows


def _insert(file: Path, before: str, lines: str) -> None:
    text = file.read_text("utf-8")
    assert before in text
    file.write_text(text.replace(before, lines + before, 1), "utf-8")


def _python(folder: Path, *arguments: str) -> str:
    """What a Python that is started in a copy of the sources prints; it uses the copy."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONUTF8": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
