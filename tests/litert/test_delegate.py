"""The delegate, live: what an interpreter of LiteRT computes with npusim in it, against the same without it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import npusim.litert
from npusim.isa.base.tensor import Array

from .export import to_tflite
from .live import difference, needs_litert
from .rows import CLOSE, ROWS, UNDEFINED, inputs_of, model
from .test_graphs import graph_of
from ..graphs import random_inputs
from ..random_graphs import deep_graph, random_graph
from .test_states import DTYPES, with_states

SEEDS = int(os.environ.get("NPUSIM_EXAMPLES", "2"))
GRAPHS = int(os.environ.get("NPUSIM_EXAMPLES", "20"))


def interpreter(data: bytes, delegate: npusim.litert.Delegate | None = None, **how: Any) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    return Interpreter(
        model_content=data,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_delegates=[delegate] if delegate else None,
        **how,
    )


def invoked(runner: Any, inputs: Sequence[Array]) -> list[Array]:
    """The outputs for inputs of any shape."""
    details = runner.get_input_details()
    for detail, value in zip(details, inputs, strict=True):
        runner.resize_tensor_input(detail["index"], value.shape)
    runner.allocate_tensors()
    for detail, value in zip(details, inputs, strict=True):
        runner.set_tensor(detail["index"], value)
    runner.invoke()
    return [runner.get_tensor(detail["index"]) for detail in runner.get_output_details()]
