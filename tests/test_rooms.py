"""Who may import whom: the table of all rooms, kept true by reading every import, also lazy and typed ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from npusim.kernels.table import NAMES

ROOT = Path(__file__).resolve().parents[1]

TOP = {
    "npusim.isa": ROOT / "isa",
    "npusim.kernels": ROOT / "kernels",
    "npusim.scheduler": ROOT / "scheduler",
    "npusim.reports": ROOT / "reports",
    "npusim": ROOT / "npusim",
}
"""Import names of the top-level folders."""

ROOMS: dict[str, tuple[str, ...]] = {
    "npusim.isa.base": (),
    "npusim.isa.arithmetic": ("npusim.isa.base",),
    "npusim.isa.engines": ("npusim.isa.base",),
    "npusim.isa.hardware": ("npusim.isa.engines", "npusim.isa.arithmetic"),
    "npusim.isa.instructions": ("npusim.isa.hardware",),
    "npusim.isa.program": ("npusim.isa.instructions",),
    "npusim.isa.text": ("npusim.isa.program",),
    "npusim.isa": ("npusim.isa.text",),
    "npusim.kernels.operator": ("npusim.isa",),
    "npusim.kernels.lowering": ("npusim.kernels.operator",),
    "npusim.kernels.operators": ("npusim.kernels.lowering",),
    "npusim.kernels": ("npusim.kernels.operators",),
    "npusim.kernels.graph": ("npusim.kernels",),
    "npusim.scheduler.fit": ("npusim.kernels.graph",),
    "npusim.scheduler.network": ("npusim.scheduler.fit",),
    "npusim.scheduler.place": ("npusim.scheduler.network",),
    "npusim.scheduler.emit": ("npusim.scheduler.place",),
    "npusim.scheduler": ("npusim.scheduler.emit",),
    "npusim.scheduler.search": ("npusim.scheduler",),
    "npusim.scheduler.partition": ("npusim.kernels.graph",),
    "npusim.base": ("npusim.isa",),
    "npusim.machine": ("npusim.isa",),
    "npusim.numbers": ("npusim.base", "npusim.machine"),
    "npusim.frontends": ("npusim.base", "npusim.kernels.graph"),
    "npusim.models": ("npusim.frontends",),
    "npusim.session": (
        *("npusim.scheduler.search", "npusim.scheduler.partition", "npusim.numbers"),
        *("npusim.frontends", "npusim.models"),
    ),
    "npusim.hal": ("npusim.session",),
    "npusim.serving": ("npusim.session",),
    "npusim.nnadapter.cache": ("npusim.numbers", "npusim.frontends"),
    "npusim.nnadapter.hal": ("npusim.session",),
    "npusim.nnadapter.c": ("npusim.nnadapter",),
    "npusim.nnadapter": ("npusim.nnadapter.hal", "npusim.nnadapter.cache", "npusim.reports"),
    "npusim.verification": ("npusim.session",),
    "npusim.quantization": ("npusim.session",),
    "npusim.litert": ("npusim.hal", "npusim.nnadapter", "npusim.views"),
    "npusim.study": ("npusim.session", "npusim.quantization"),
    "npusim.comparison": ("npusim.numbers",),
    "npusim.reports.words": ("npusim.numbers",),
    "npusim.reports.page": ("npusim.reports.words",),
    "npusim.reports.run": ("npusim.reports.page",),
    "npusim.reports.comparison": ("npusim.reports.run", "npusim.comparison"),
    "npusim.reports.study": ("npusim.reports.run", "npusim.study"),
    "npusim.reports.serving": ("npusim.reports.run", "npusim.serving"),
    "npusim.reports.notebook": ("npusim.reports.comparison", "npusim.reports.study"),
    "npusim.reports": ("npusim.reports.run",),
    "npusim.views": ("npusim.reports.notebook",),
    "npusim.explore": ("npusim.views",),
    "npusim.cli": (
        "npusim.reports",
        "npusim.reports.notebook",
        "npusim.reports.serving",
        "npusim.verification",
        "npusim.quantization",
        "npusim.nnadapter",
    ),
    "npusim.__main__": ("npusim.cli",),
    "npusim": ("npusim.explore", "npusim.verification", "npusim.quantization", "npusim.serving"),
}
"""The rooms, and below each the rooms it stands on: it may import from them, and from whatever they stand on.

A folder with modules is a room; so is a module of `npusim` itself.
"""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the product by its import name."""
    for package, folder in TOP.items():
        for file in sorted(folder.rglob("*.py")):
            inside = file.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *(part for part in inside if part != "__init__"))), file


FILES = dict(modules())


@cache
def imports(file: Path) -> tuple[tuple[int, str], ...]:
    """What a file imports, wherever in it, as (line, module); names of a package count as its modules."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import; modules have one name only"
            module = node.module or ""
            parts = [f"{module}.{alias.name}" for alias in node.names]
            yield from (
                (node.lineno, part if part in FILES or module == "npusim" else module) for part in parts
            )


def within(name: str, package: str) -> bool:
    """Whether a module is a package or lies in it."""
    return name == package or name.startswith(f"{package}.")


def room(module: str) -> str:
    """The room of a module: the innermost one that it lies in; a room with rooms inside holds its own files only."""
    rows = [row for row in ROOMS if within(module, row)]
    return max(rows, key=len)


def below(name: str) -> frozenset[str]:
    """All rooms that a room stands on."""
    direct = ROOMS[name]
    return frozenset(direct).union(*(below(other) for other in direct))


def imported() -> dict[str, set[str]]:
    """The modules of the product that each module imports, itself and outer packages of its own room aside."""
    return {
        module: {name for _, name in imports(file) if name in FILES and name != module}
        for module, file in FILES.items()
    }


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """A circle of arrows, the first one again at its end; empty if there is none."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(arrows.get(name, ())):
            if round_trip := walk(other, [*path, name]):
                return round_trip
        done.add(name)
        return []

    return next((found for name in sorted(arrows) if (found := walk(name, []))), [])


def test_a_circle_is_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_every_folder_is_a_room() -> None:
    folders = {
        module if file.name == "__init__.py" else module.rpartition(".")[0] for module, file in FILES.items()
    }
    # Families of operators, kinds of engines, readers of one format, and hardware files are shelves of their room.
    inside = (
        *("npusim.kernels.operators.", "npusim.isa.engines.", "npusim.frontends."),
        "npusim.isa.hardware.presets",
    )
    shelves = {name for name in folders if name.startswith(inside)}
    single = {name for name in FILES if name.count(".") == 1 and name not in folders}
    assert set(ROOMS) == (folders - shelves) | single


def test_the_table_has_no_circle() -> None:
    assert circle({name: set(others) for name, others in ROOMS.items()}) == []


@pytest.mark.parametrize("module", FILES)
def test_imports_keep_to_the_table(module: str) -> None:
    own, file = room(module), FILES[module]
    allowed = below(own)
    for line, name in imports(file):
        if not within(name, "npusim"):
            continue
        assert name in FILES or name == "npusim", f"{file}:{line}: there is no module {name}"
        assert room(name) == own or room(name) in allowed, (
            f"{file}:{line}: {own} stands on {', '.join(ROOMS[own]) or 'no other package'}, not on {room(name)}"
        )


@pytest.mark.slow
def test_no_circle_between_files() -> None:
    assert circle(imported()) == []


def sources() -> list[Path]:
    """All Python files of the product, its tests and benchmarks."""
    folders = ("npusim", "isa", "kernels", "scheduler", "reports", "tests", "benchmarks")
    return [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]


def test_no_circle_between_benchmarks() -> None:
    files = {f"benchmarks.{file.stem}": file for file in (ROOT / "benchmarks").glob("*.py")}
    arrows = {
        module: {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in files else str(node.module)
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        - {module}
        for module, file in files.items()
    }
    assert circle(arrows) == []


@pytest.mark.slow
def test_rooms_have_one_name_only() -> None:
    # `import isa` would load the same file a second time under another name.
    second_names = {"isa", "kernels", "scheduler", "reports"}
    # Parsing a thousand files takes seconds; only those with such a line can be wrong.
    names = "|".join(second_names)
    likely = re.compile(rf"^\s*(?:from\s+(?:{names})\b|import\s[^#\n]*(?<![.\w])(?:{names})\b)", re.MULTILINE)
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sources()
        if likely.search(text := file.read_text())
        for node in ast.walk(ast.parse(text))
        for name in _top_level(node)
        if name in second_names
    ]
    assert wrong == []


def _top_level(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [(node.module or "").partition(".")[0]]
    return []


def test_the_scheduler_names_no_operator() -> None:
    assert "conv_2d" in NAMES
    for file in sorted((ROOT / "scheduler").rglob("*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            assert text not in NAMES, f"{file.name}:{node.lineno}: names the operator {text!r}"  # type: ignore[attr-defined]
        for line, name in imports(file):
            if within(name, "npusim.kernels"):
                assert name.rpartition(".")[2] not in NAMES, f"{file.name}:{line}: imports {name}"


def test_the_machine_names_no_instruction() -> None:
    # The units have one loop; what differs between instructions is in their rows.
    rows = {f"npusim.isa.instructions.{name}" for name in ("dma", "mac", "vector", "reduction", "control")}
    assert rows <= set(FILES)
    for module, file in FILES.items():
        if within(module, "npusim.machine"):
            assert not rows & {name for _, name in imports(file)}, module


def test_only_commands_print_or_exit() -> None:
    for module, file in modules():
        text = file.read_text()
        command = within(module, "npusim.__main__") or module.startswith("npusim.cli.app")
        if (
            command
            or 'if __name__ == "__main__":' in text
            or not re.search(r"\b(print|exit|quit)\s*\(", text)
        ):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "exit", "quit"), f"{file}:{node.lineno}"
