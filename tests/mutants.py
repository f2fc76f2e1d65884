"""Whether the tests notice small faults of the product: seeded mutants, each run against the tests that execute it.

    python -m tests.mutants --seed 1 --count 60 -- tests/isa tests/kernels -m "not slow"
    python -m tests.mutants --only mutants.json -- tests/isa       the same mutants against other tests
    python -m tests.mutants --drawn all.json -- tests/isa          keep them all, also those that are found

What follows `--` are arguments of pytest. One process collects these tests and runs them once, to learn which functions
each of them calls. Then, for each mutant, a forked child replaces the code of one function, runs the tests that call
it, the fastest first, and ends at the first that fails. A mutant that no test fails for is printed as "not found"; it
is kept in the file that `--out` names, so that a larger suite can be asked about it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import _lru_cache_wrapper, cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("npusim", "isa", "kernels", "scheduler")
LIMIT_S = 20
"""CPU time for the tests of one mutant above three times what they took without; one that computes for ever counts as
found. CPU time, so that a busy computer does not find mutants."""
WAIT_S = 3600
"""Elapsed time after which a mutant counts as found, too: it may wait for what never comes."""
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
"""An operator and what a mutant has in its place."""


@dataclass(frozen=True)
class Mutant:
    """A fault: the file, the line of the function, the place of the changed node among its nodes, and the change."""

    file: str
    function: int
    node: int
    change: str


@cache
def source_of(code: CodeType) -> Path | None:
    """The file of the product that a code object is from, with links followed; None if it is not of the product."""
    path = Path(code.co_filename)
    if not path.is_file():
        return None
    real = path.resolve()
    inside = real.is_relative_to(ROOT) and real.relative_to(ROOT).parts[0] in PRODUCT
    return real if inside else None


def definition(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """The function whose code object begins at a line: that of its first decorator, or of its `def`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        if min([node.lineno, *(each.lineno for each in node.decorator_list)]) == line:
            return node
    return None


def inside(function: ast.FunctionDef) -> list[ast.AST]:
    """All nodes of a function's body, in a fixed order, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return [node for statement in body for node in ast.walk(statement)]


def changes(node: ast.AST) -> Iterator[str]:
    """What may be changed at a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield "comparison"
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield from ("operator", "dropped term")
    if isinstance(node, ast.BoolOp):
        yield from ("and for or", "dropped condition")
    if isinstance(node, ast.If | ast.IfExp | ast.comprehension) and (
        not isinstance(node, ast.comprehension) or node.ifs
    ):
        yield "removed condition"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from ("constant + 1", "constant - 1")
    if (
        isinstance(node, ast.Call)
        and len(node.args) >= 2
        and not any(isinstance(each, ast.Starred) for each in node.args)
    ):
        yield "swapped arguments"


def apply(node: ast.AST, change: str) -> None:
    """Change a node in place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.BinOp) and change == "operator":
        node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.BinOp):
        node.op, node.right = ast.Add(), ast.Constant(0)
    elif isinstance(node, ast.BoolOp) and change == "and for or":
        node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.BoolOp):
        node.values = node.values[:-1] if len(node.values) > 2 else [node.values[0], node.values[0]]
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.Constant(True)
    elif isinstance(node, ast.comprehension):
        node.ifs = node.ifs[1:]
    elif isinstance(node, ast.Constant):
        node.value = node.value + (1 if change.endswith("+ 1") else -1)  # type: ignore[operator]
    elif isinstance(node, ast.Call):
        node.args[0], node.args[1] = node.args[1], node.args[0]
    ast.fix_missing_locations(node)


def mutated(mutant: Mutant) -> tuple[str, CodeType | None]:
    """The changed line as text, before and after, and the function's new code; None if nothing changes."""
    path = ROOT / mutant.file
    tree = ast.parse(path.read_text("utf-8"))
    function = definition(tree, mutant.function)
    assert function is not None
    node = inside(function)[mutant.node]
    before = ast.unparse(copy.deepcopy(node))
    apply(node, mutant.change)
    found = code_at(compile(tree, str(path), "exec"), mutant.function, function.name)
    line = getattr(node, "lineno", function.lineno)
    return f"{mutant.file}:{line} {mutant.change}: {before[:60]} -> {ast.unparse(node)[:60]}".replace(
        "\n", " "
    ), found


def code_at(code: CodeType, line: int, name: str) -> CodeType | None:
    """The code object of a function in that of its module."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_firstlineno == line and each.co_name == name:
                return each
            deeper = code_at(each, line, name)
            if deeper is not None:
                return deeper
    return None


class Mutants:
    """A plugin of pytest that runs the collected tests once, and then those that meet a mutant for each mutant."""

    def __init__(self, seed: int, count: int, only: list[Mutant], drawn: Path | None) -> None:
        self.random, self.count, self.only, self.drawn = random.Random(seed), count, only, drawn
        self.tests: dict[CodeType, set[int]] = defaultdict(set)
        self.seconds: dict[int, float] = {}
        self.missed: list[Mutant] = []
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember whether a test failed."""
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own loop."""
        gc.unfreeze()  # The functions to change are found among the objects that the collector knows.
        kept = self._learn(session.items)
        print(f"\n{len(kept)} tests call {len(self.tests)} functions of the product")
        found = 0
        chosen = self.only or self._drawn()
        if self.drawn:
            self.drawn.write_text(text_of(chosen))
        for number, mutant in enumerate(chosen, 1):
            shown, code = mutated(mutant)
            met = sorted(self._met(mutant), key=self.seconds.__getitem__)
            limit_s = LIMIT_S + 3 * int(sum(self.seconds[place] for place in met))
            noticed = self._noticed(mutant, code, [session.items[place] for place in met], limit_s)
            found += noticed is not None
            if noticed is None:
                self.missed.append(mutant)
            print(f"{number:3} {noticed or 'NOT FOUND':40.40} {len(met):5} tests  {shown}", flush=True)
        print(f"{found} of {len(chosen)} mutants found")
        return True

    def _learn(self, items: list[pytest.Item]) -> list[int]:
        """Run all tests once; those that pass count."""
        kept = []
        for place, item in enumerate(items):
            called: set[CodeType] = set()

            def note(frame: FrameType, event: str, _: object, called: set[CodeType] = called) -> None:
                if event == "call":
                    called.add(frame.f_code)

            self.failed = False
            start = time.process_time()
            sys.setprofile(note)
            try:
                self._run(item)
            finally:
                sys.setprofile(None)
            self.seconds[place] = time.process_time() - start
            if not self.failed:
                kept.append(place)
                for code in called:
                    self.tests[code].add(place)
        self.tests = {code: places for code, places in self.tests.items() if source_of(code) is not None}
        return kept

    @staticmethod
    def _run(item: pytest.Item) -> None:
        """Run one test, its fixtures set up and torn down for it alone."""
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def _met(self, mutant: Mutant) -> set[int]:
        """The tests that call the changed function."""
        met: set[int] = set()
        for code, places in self.tests.items():
            if code.co_firstlineno == mutant.function and source_of(code) == ROOT / mutant.file:
                met |= places
        return met

    def _drawn(self) -> list[Mutant]:
        """Random mutants: a function that runs, a node of it, a change."""
        places = sorted({(str(source_of(code)), code.co_firstlineno) for code in self.tests})
        chosen: list[Mutant] = []
        while len(chosen) < self.count:
            path, line = self.random.choice(places)
            function = definition(ast.parse(Path(path).read_text("utf-8")), line)
            choices = [
                (place, change)
                for place, node in enumerate(inside(function) if function else ())
                for change in changes(node)
            ]
            if choices:
                mutant = Mutant(str(Path(path).relative_to(ROOT)), line, *self.random.choice(choices))
                if mutant not in chosen and self._replaces(mutant):
                    chosen.append(mutant)
        return chosen

    def _replaces(self, mutant: Mutant) -> bool:
        """Whether functions take the changed code: it must need the same variables of its surroundings."""
        _, code = mutated(mutant)
        functions = functions_of(mutant)
        return code is not None and bool(functions) and code.co_freevars == functions[0].__code__.co_freevars

    def _noticed(
        self, mutant: Mutant, code: CodeType | None, items: list[pytest.Item], limit_s: int
    ) -> str | None:
        """The test that fails with the mutant, or that it takes too long; None if all pass."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
                for function in functions_of(mutant):
                    assert code is not None
                    function.__code__ = code
                for each in gc.get_objects():
                    if isinstance(each, _lru_cache_wrapper) and each is not source_of:
                        each.cache_clear()  # What was computed without the fault.
                with open(os.devnull, "w") as nothing:
                    os.dup2(nothing.fileno(), 1)
                    os.dup2(nothing.fileno(), 2)
                self.failed = False
                for item in items:
                    self._run(item)
                    if self.failed:
                        os.write(writer, item.nodeid.encode())
                        break
            except BaseException as fault:
                os.write(writer, f"{type(fault).__name__} outside of a test".encode())
            finally:
                os._exit(0)
        os.close(writer)
        deadline = time.monotonic() + WAIT_S
        while (status := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "takes too long"
            time.sleep(0.02)
        if os.WIFSIGNALED(status[1]):
            return "takes too long"
        with os.fdopen(reader, "rb") as pipe:
            return pipe.read().decode().removeprefix("tests/") or None


def text_of(mutants: list[Mutant]) -> str:
    """Mutants as the text of a file for `--only`."""
    return json.dumps([asdict(mutant) for mutant in mutants], indent=1) + "\n"


def functions_of(mutant: Mutant) -> list[FunctionType]:
    """The living functions that a mutant changes."""
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and each.__code__.co_firstlineno == mutant.function
        and source_of(each.__code__) == ROOT / mutant.file
    ]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--only", type=Path, help="a file that --out has written: try these mutants")
    parser.add_argument("--drawn", type=Path, help="write all mutants into this file, before they are tried")
    parser.add_argument("--out", type=Path, help="write the mutants that were not found into this file")
    parser.add_argument("arguments", nargs="*", help="of pytest, behind --")
    given = parser.parse_args()
    only = [Mutant(**each) for each in json.loads(given.only.read_text())] if given.only else []
    plugin = Mutants(given.seed, given.count, only, given.drawn)
    status = pytest.main(["-s", "-p", "no:cacheprovider", "--no-header", *given.arguments], plugins=[plugin])
    if given.out:
        given.out.write_text(text_of(plugin.missed))
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
