"""Count the product's lines by kind, its files, and what a small run imports: `python -m tests.house`.

Each line has one kind: docstring, comment, import, table (an assignment of more than five lines at module or class
level), blank, or code.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("npusim", "isa", "kernels", "scheduler", "reports")
TABLE_LINES = 5
"""A module or class level assignment longer than this is a table."""

SMALL_RUN = """
import sys
from contextlib import redirect_stdout
from io import StringIO
from npusim.cli.app import main
sys.argv = ["npusim", "run", "digits_cnn", "--timing-only"]
try:
    with redirect_stdout(StringIO()):
        main()
except SystemExit:
    pass
print(sum(name.partition(".")[0] == "npusim" for name in sys.modules))
"""


def files() -> list[Path]:
    """Return the product's Python files."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def kinds(source: str) -> Counter[str]:
    """Count the lines of a file by kind: code, docstring, comment, import, table, blank."""
    lines = source.splitlines()
    kind = ["blank" if not line.strip() else "code" for line in lines]
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for first, last, name in _spans(node, tree):
            for number in range(first - 1, last):
                if kind[number] == "code" or name == "docstring":
                    kind[number] = name
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            kind[token.start[0] - 1] = "comment"
    return Counter(kind)


def _spans(node: ast.AST, tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield first and last lines, and the kind, of imports, strings that stand alone, and tables."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node.lineno, node.end_lineno or node.lineno, "import"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        if isinstance(node.value.value, str):
            yield node.lineno, node.end_lineno or node.lineno, "docstring"
    elif isinstance(node, (ast.Module, ast.ClassDef)):
        for statement in node.body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                last = statement.end_lineno or statement.lineno
                if last - statement.lineno >= TABLE_LINES:
                    yield statement.lineno, last, "table"


def measures() -> dict[str, int]:
    """Return every number by its name."""
    paths = files()
    lines: Counter[str] = Counter()
    for path in paths:
        lines += kinds(path.read_text("utf-8"))
    names = Counter(path.stem for path in paths if path.stem != "__init__")
    rows = subprocess.run(
        [sys.executable, "-c", "from npusim.isa.instructions.table import ROWS as i; print(len(i))"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    modules = subprocess.run(
        [sys.executable, "-c", SMALL_RUN], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.splitlines()[-1]
    return {
        "product lines": lines.total(),
        **{f"  {kind}": number for kind, number in lines.most_common()},
        "product files": len(paths),
        "base names used more than once": sum(number > 1 for number in names.values()),
        "instruction rows": int(rows),
        "own modules imported by run --timing-only of digits_cnn": int(modules),
    }


if __name__ == "__main__":
    for name, number in measures().items():
        print(f"{number:>8,}  {name}")
