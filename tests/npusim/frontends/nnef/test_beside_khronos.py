"""Flat documents beside the Khronos parser (PyPI nnef), where it is installed: the same calls, the same refusals."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from npusim.frontends.nnef.call_network import Network
from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.places import DocumentError
from tests.npusim.frontends.nnef import khronos
from tests.npusim.frontends.nnef.documents import flat, fragment, own
from tests.npusim.frontends.nnef.test_rules import TABLE
from tests.npusim.frontends.nnef.test_standard import call
from tests.npusim.frontends.nnef.test_writer import BODY

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("_nnef") is None, reason="the Khronos parser is not installed: pip install nnef"
)


class Parser:
    """The parser in a process, which is begun anew after a crash."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, text: str) -> Any:
        """Its answer, or "crash"."""
        if self._process is None:
            command = [sys.executable, str(khronos.__file__)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(text) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if line:
            return rounded(json.loads(line))
        self.close()
        return "crash"

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


@pytest.fixture(scope="module")
def parser() -> Iterator[Parser]:
    parser = Parser()
    yield parser
    parser.close()


class Everything:
    """All names: nothing is expanded."""

    def __contains__(self, name: object) -> bool:
        return True


def shown(network: Network) -> Any:
    """The network as the answers of the other process are."""
    calls = []
    for made in network.calls:
        declared = standard.fragment(made.operation)
        names = [result.name for result in declared.results] if declared else ["b"]
        calls.append(
            [made.operation, made.attributes, made.tensors, dict(zip(names, made.results, strict=True))]
        )
    return rounded(json.loads(json.dumps([network.name, network.inputs, network.outputs, calls])))


def rounded(value: Any) -> Any:
    """The value with its scalars as float32, which the other parser keeps."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(np.float32(value)) if isinstance(value, float) else value


DOCUMENTS = (
    flat("y = relu(x);"),
    flat(BODY),
    flat("(m, v) = moments(x, axes = [2,3]); [a, b] = unstack(x, axis = 1); y = add_n([m, v, a, b]);"),
    flat('w = variable(shape = [1], label = "it\'s"); y = add(y = 2.5e-3, x = w);'),
    own(
        fragment(
            "b = relu(a);",
            "a: tensor<scalar>, k: integer[] = [1], p: (integer,scalar) = (1,2.0), s: string = 'x'",
        )
    ),
)


@pytest.mark.parametrize("text", DOCUMENTS)
def test_both_give_the_same_calls(text: str, parser: Parser) -> None:
    assert shown(loads(text).network(Everything())) == parser(text)  # type: ignore[arg-type]


TAKEN_WITH_MORE = {"external", "split", "unstack", "copy_n", "cast", "update"}


@pytest.mark.parametrize("name", sorted(set(standard.OPERATIONS) - TAKEN_WITH_MORE))
def test_both_know_the_same_parameters_and_defaults(name: str, parser: Parser) -> None:
    row = standard.OPERATIONS[name]
    results = ", ".join(f"r{index}" for index in range(len(row.results)))
    texts = call(row)
    needs = "i = argmax_pool(x, size = [1,1,1,1]); c = lt(x, 0.0);"
    texts = (
        texts.replace("argmax_pool(x, size = [1,1,1,1])", "i")
        .replace("cast<integer>(x)", "i")
        .replace("lt(x, 0.0)", "c")
    )
    if name in ("argmax_pool", "lt"):
        texts = call(row)
    texts = re.sub(r"\b(input|x|y) = x(?=[,)])", r"\1 = c", texts) if row.family == "logical" else texts
    texts = texts.replace("input = x", "input = c") if name in ("any_reduce", "all_reduce") else texts
    values = {
        "constant": "constant(shape = [1], value = [0.5])",
        "variable": "variable(shape = [1], label = 'w')",
    }
    text = flat(f"{needs} {results} = {values.get(name, texts)}; y = copy(x);")
    assert shown(loads(text).network(Everything())) == parser(text)  # type: ignore[arg-type]


def outcome(text: str) -> tuple[Any, str]:
    """What the network is, or None and the rule that its document breaks."""
    try:
        return shown(loads(text).network(Everything())), ""  # type: ignore[arg-type]
    except DocumentError as fault:
        return None, str(fault).partition("(rule ")[2].partition(":")[0]


LENIENT = {"L2", "G4", "G6", "G7", "C9", "X2", "I6", "I7", "S1", "N", "E6", "P", "C8", "G8", "F3"}
"""Rules that the Khronos parser does not hold everywhere: 1. for 1.0, borders, labels, numbers of results, nesting."""


@pytest.mark.slow
def test_both_refuse_the_same_mutants(parser: Parser) -> None:
    chance = random.Random(3)
    element = re.compile(r"\w+|\s+|.", re.DOTALL)
    accepted = 0
    for _ in range(600):
        elements = element.findall(chance.choice(DOCUMENTS))
        place = chance.choice([index for index, word in enumerate(elements) if not word.isspace()])
        match chance.randrange(3):
            case 0:
                elements[place] = ""
            case 1:
                elements[place] = chance.choice([word for word in elements if not word.isspace()])
            case _:
                elements.insert(place, chance.choice(["(", ")", "[", "]", ",", ";", "1", "2.5", "x", "'a'"]))
        text = "".join(elements)
        theirs = parser(text)
        ours, rule = outcome(text)
        if ours is None:
            assert theirs in (None, "crash") or rule in LENIENT, (text, rule)
            continue
        assert text.startswith("version 1.0\n") or ours == theirs, text
        accepted += 1
    assert accepted > 40


@pytest.mark.slow
def test_both_refuse_the_documents_that_break_a_rule(parser: Parser) -> None:
    known = {rule for rule, text, _, _ in TABLE if isinstance(parser(text), list)}
    assert known <= LENIENT | {"E8", "E10", "F6", "B2", "L3", "I1", "I4", "C10"}
