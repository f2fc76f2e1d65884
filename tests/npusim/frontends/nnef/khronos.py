"""The Khronos package in a process of its own, for it may crash: a question a line, an answer a line."""

from __future__ import annotations

import json
import sys

import _nnef  # type: ignore[import-not-found]  # the parser alone: the package around it needs more


def answer(text: str) -> object:
    """None where the parser refuses, or name, inputs, outputs and operations."""
    try:
        graph = _nnef.parse_string(text, quantization=None, stdlib=None, lowered=[])
    except Exception:  # its own, and those of Python's that it lets through
        return None
    operations = [
        [operation.name, operation.attribs, operation.inputs, operation.outputs]
        for operation in graph.operations
    ]
    return [graph.name, graph.inputs, graph.outputs, operations]


def main() -> None:
    """Answers until the end of the input."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line)), default=str), flush=True)


if __name__ == "__main__":
    main()
