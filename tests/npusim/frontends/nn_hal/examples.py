"""The NNAPI examples of ../shared as models of structs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends.nn_hal.enumerations import (
    HalVersion,
    OperandLifeTime,
    OperandType,
    OperationType,
    row_of,
)
from npusim.frontends.nn_hal.structs import (
    DataLocation,
    Model,
    Operand,
    Operation,
    Subgraph,
    SymmPerChannelQuantParams,
)

FOLDER = Path(__file__).resolve().parents[5] / "shared" / "nnapi_examples"
VERSIONS = ("V1_0", "V1_1", "V1_2", "V1_3", "AIDL_V2", "AIDL_V3")


def examples(*versions: str) -> Iterator[dict[str, Any]]:
    """Every example of these versions (all), with its `version`."""
    for version in versions or VERSIONS:
        for path in sorted((FOLDER / version).glob("*.json.gz")):
            yield from _file(path)


@cache
def _file(path: Path) -> list[dict[str, Any]]:
    content = json.loads(gzip.decompress(path.read_bytes()))
    return [{**example, "version": content["version"]} for example in content["examples"]]


def model_of(example: dict[str, Any]) -> Model:
    """The model of an example; an omitted constant is an operand without a value."""
    memory = bytearray()
    graphs = [_graph(graph, memory) for graph in (example["main"], *example.get("referenced", ()))]
    main, *referenced = graphs
    return Model(
        **vars(main),
        operandValues=bytes(memory),
        relaxComputationFloat32toFloat16=example["relaxed"],
        referenced=referenced,
        version=HalVersion[example["version"]],
    )


def _graph(graph: dict[str, Any], memory: bytearray) -> Subgraph:
    return Subgraph(
        operands=[_operand(operand, memory) for operand in graph["operands"]],
        operations=[
            Operation(OperationType[one["type"]], one["inputs"], one["outputs"])
            for one in graph["operations"]
        ],
        inputIndexes=graph["inputIndexes"],
        outputIndexes=graph["outputIndexes"],
    )


def _operand(said: dict[str, Any], memory: bytearray) -> Operand:
    type_, lifetime = OperandType[said["type"]], OperandLifeTime[said["lifetime"]]
    location = DataLocation()
    if lifetime in (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_REFERENCE):
        lifetime = OperandLifeTime.CONSTANT_COPY
        data = np.array(said["value"], row_of(type_).element).tobytes()
        if not data and 0 not in said["dims"]:
            lifetime = OperandLifeTime.NO_VALUE
        else:
            location = DataLocation(0, len(memory), len(data))
            memory += data
    elif lifetime is OperandLifeTime.SUBGRAPH:
        location = DataLocation(0, said["value"][0], 0)
    channels = said.get("channelQuant")
    return Operand(
        type_,
        said["dims"],
        said["consumers"],
        float(np.float32(said["scale"])),
        said["zeroPoint"],
        lifetime,
        location,
        SymmPerChannelQuantParams([float(np.float32(s)) for s in channels["scales"]], channels["channelDim"])
        if channels
        else None,
    )
