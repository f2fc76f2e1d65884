"""Who may import whom: the table of rooms, kept true by reading the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from npusim.kernels.table import OPERATORS

ROOT = Path(__file__).resolve().parents[1]

TOP = {
    "npusim.isa": ROOT / "isa",
    "npusim.kernels": ROOT / "kernels",
    "npusim.scheduler": ROOT / "scheduler",
    "npusim.reports": ROOT / "reports",
    "npusim": ROOT / "npusim",
}
"""Import names of the top-level folders."""

ISA = tuple(
    f"npusim.isa.{room}" for room in ("base", "arithmetic", "engines", "hardware", "instructions", "program")
)
KERNELS = tuple(f"npusim.kernels.{room}" for room in ("operator", "lowering", "operators", "table"))
SCHEDULER = tuple(f"npusim.scheduler.{room}" for room in ("fit", "network", "place", "emit"))
COMPILED = ("npusim.isa", "npusim.kernels")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "npusim.isa": (),
    "npusim.isa.base": (),
    "npusim.isa.arithmetic": ISA[:1],
    "npusim.isa.engines": ISA[:2],
    "npusim.isa.hardware": ISA[:3],
    "npusim.isa.instructions": ISA[:4],
    "npusim.isa.program": ISA[:5],
    "npusim.isa.text": ISA,
    "npusim.kernels": ("npusim.isa", *KERNELS),
    "npusim.kernels.operator": ("npusim.isa",),
    "npusim.kernels.lowering": ("npusim.isa", *KERNELS[:1]),
    "npusim.kernels.operators": ("npusim.isa", *KERNELS[:2]),
    "npusim.kernels.graph": ("npusim.isa", *KERNELS),
    "npusim.scheduler": (*COMPILED, *SCHEDULER),
    "npusim.scheduler.fit": COMPILED,
    "npusim.scheduler.network": (*COMPILED, *SCHEDULER[:1]),
    "npusim.scheduler.place": (*COMPILED, *SCHEDULER[:2]),
    "npusim.scheduler.emit": (*COMPILED, *SCHEDULER[:3]),
    "npusim.scheduler.search": (*COMPILED, *SCHEDULER, "npusim.scheduler.compile"),
    "npusim.frontends": ("npusim.isa", "npusim.kernels"),
    "npusim.models": ("npusim.isa", "npusim.kernels", "npusim.base"),
    "npusim.machine": ("npusim.isa",),
    "npusim.base": ("npusim.isa",),
}
"""What each room may import of ours, itself aside. Rooms not listed know everybody: cli, session, ..."""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the product by its import name."""
    for package, folder in TOP.items():
        for file in sorted(folder.rglob("*.py")):
            inside = file.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *(part for part in inside if part != "__init__"))), file


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """What a file imports, wherever in it, as (line, module); names of a package count as its modules."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import; modules have one name only"
            module = node.module or ""
            parts = [f"{module}.{alias.name}" for alias in node.names]
            yield from (
                (node.lineno, part if part in NAMES or module == "npusim" else module) for part in parts
            )


NAMES = {name for name, _ in modules()}


def within(name: str, package: str) -> bool:
    """Whether a module is a package or lies in it."""
    return name == package or name.startswith(f"{package}.")


def governed(module: str) -> str | None:
    """The row of the table that a module falls under."""
    rows = [row for row in MAY_IMPORT if within(module, row)]
    return max(rows, key=len) if rows else None


def test_every_module_is_found() -> None:
    for package in TOP:
        assert package in NAMES
    assert {
        "npusim.isa.instructions.instruction",
        "npusim.kernels.operators.convolution.conv_2d",
        "npusim.scheduler.compile",
    } <= NAMES
    for module in MAY_IMPORT:
        assert module in NAMES


@pytest.mark.parametrize(
    ("module", "file"), list(modules()), ids=lambda value: str(getattr(value, "name", value))
)
def test_imports_keep_to_the_table(module: str, file: Path) -> None:
    row = governed(module)
    if row is None:
        return
    for line, name in imports(file):
        if not within(name, "npusim") or within(name, row):
            continue
        allowed = MAY_IMPORT[row]
        assert any(within(name, each) for each in allowed), (
            f"{file}:{line}: {row} may import {', '.join(allowed) or 'nothing of ours'}, not {name}"
        )


def sources() -> list[Path]:
    """All Python files of the product, its tests and benchmarks."""
    folders = ("npusim", "isa", "kernels", "scheduler", "reports", "tests", "benchmarks")
    return [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]


def test_rooms_have_one_name_only() -> None:
    # `import isa` would load the same file a second time under another name.
    second_names = {"isa", "kernels", "scheduler", "reports"}
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sources()
        for node in ast.walk(ast.parse(file.read_text()))
        for name in _top_level(node)
        if name in second_names
    ]
    assert found == []


def _top_level(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [(node.module or "").partition(".")[0]]
    return []


def test_the_scheduler_names_no_operator() -> None:
    operators = {each.name for each in OPERATORS}
    assert "conv_2d" in operators
    for file in sorted((ROOT / "scheduler").rglob("*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            assert text not in operators, f"{file.name}:{node.lineno}: names the operator {text!r}"  # type: ignore[attr-defined]
        for line, name in imports(file):
            if within(name, "npusim.kernels"):
                assert name.rpartition(".")[2] not in operators, f"{file.name}:{line}: imports {name}"


def test_the_machine_names_no_instruction() -> None:
    # The units have one loop; what differs between instructions is in their rows.
    for name in ("npusim.machine.system", "npusim.machine.core", "npusim.machine.port"):
        file = dict(modules())[name]
        rows = {
            "npusim.isa.instructions.dma",
            "npusim.isa.instructions.mac",
            "npusim.isa.instructions.vector",
            "npusim.isa.instructions.control",
        }
        assert not rows & {imported for _, imported in imports(file)}, name


def test_only_commands_print_or_exit() -> None:
    for module, file in modules():
        text = file.read_text()
        command = within(module, "npusim.__main__") or module.startswith("npusim.cli.app")
        if command or 'if __name__ == "__main__":' in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "exit", "quit"), f"{file}:{node.lineno}"
