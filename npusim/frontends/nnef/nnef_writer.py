"""The writer of NNEF models: a flat document of the final dialect, its quantization file and data files."""

from __future__ import annotations

import gzip
import io
import math
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from npusim.base import files
from npusim.frontends.nnef.call_network import Call, Network, Quantization
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.lexer import FINAL_KEYWORDS
from npusim.frontends.nnef.nnef_container import ARCHIVE_SUFFIXES, GRAPH, QUANTIZATION
from npusim.frontends.nnef.places import DocumentError

_OUTSIDE_IDENTIFIERS = re.compile(r"[^A-Za-z0-9_]")
_WITH_TYPE = ("external", "variable", "constant", "cast")
"""Generic operations whose arguments do not determine the type that `?` stands for."""


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each name: the name itself if it is one, otherwise a similar one; all are different."""
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        if name in chosen:
            continue
        stem = _OUTSIDE_IDENTIFIERS.sub("_", name) or "_"
        stem = f"_{stem}" if stem[0].isdigit() or stem in FINAL_KEYWORDS else stem
        identifier, number = stem, 1
        while identifier in taken:
            number += 1
            identifier = f"{stem}_{number}"
        taken.add(identifier)
        chosen[name] = identifier
    return chosen


def graph_text(network: Network) -> str:
    """Return the text of a flat document with the network's calls, all of standard operations.

    Names that are no identifiers are replaced, as by `identifiers` of inputs, outputs and results in their order.
    Raises DocumentError for a value that no literal expresses.
    """
    known = _identifiers(network)
    heads = [", ".join(known[name] for name in names) for names in (network.inputs, network.outputs)]
    graph = identifiers([network.name])[network.name]
    graph = f"{graph}_graph" if graph in standard.OPERATIONS else graph
    lines = [f"version 1.0;\n\ngraph {graph}({heads[0]}) -> ({heads[1]})\n{{"]
    lines.extend(f"    {_assignment(call, known)};" for call in network.calls)
    return "\n".join([*lines, "}\n"])


def quantization_text(network: Network) -> str:
    """Return the text of the quantization file; "" if nothing is quantized."""
    known = _identifiers(network)
    return "".join(f'"{known[name]}": {_entry(entry)};\n' for name, entry in network.quantization.items())


def write(path: str | Path, network: Network, data: Mapping[str, bytes]) -> None:
    """Write a model: an archive if the path ends in .tgz, .tar.gz or .tar, otherwise a folder.

    data: data files by the labels of the variables. The same model gives the same bytes.
    """
    path = Path(path)
    if path.name.lower().endswith(ARCHIVE_SUFFIXES):
        is_compressed = not path.name.lower().endswith(".tar")
        _write(path, packed(network, data, is_compressed=is_compressed))
        return
    for name, contents in _files(network, data).items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, contents)


def _write(path: Path, contents: bytes) -> None:
    files.write(path, lambda stream: stream.write(contents))


def packed(network: Network, data: Mapping[str, bytes], *, is_compressed: bool = True) -> bytes:
    """Return the archive of a model; the same model gives the same bytes. Raises DocumentError as `graph_text` does."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, contents in _files(network, data).items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
    return gzip.compress(buffer.getvalue(), mtime=0) if is_compressed else buffer.getvalue()


def _files(network: Network, data: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a model by their paths."""
    files = {GRAPH: graph_text(network).encode()}
    if network.quantization:
        files[QUANTIZATION] = quantization_text(network).encode()
    return files | {f"{label}.dat": contents for label, contents in sorted(data.items())}


def _identifiers(network: Network) -> dict[str, str]:
    results = (name for call in network.calls for name in call.result_names())
    return identifiers((*network.inputs, *network.outputs, *results))


def _assignment(call: Call, known: Mapping[str, str]) -> str:
    row = standard.OPERATIONS.get(call.operation)
    if row is None:
        raise DocumentError(f"{call.operation} is no standard operation of NNEF")
    left = ", ".join(
        known[result] if isinstance(result, str) else f"[{', '.join(known[name] for name in result)}]"
        for result in call.results
    )
    generic = f"<{call.item}>" if call.operation in _WITH_TYPE and call.item else ""
    arguments = [_operand(operand, known) for operand in call.tensors.values()]
    defaults = {parameter.name: parameter.default for parameter in row.parameters}
    for name, value in call.attributes.items():
        default = defaults.get(name)
        if default is None or default.value != value:
            arguments.append(f"{name} = {literal(value)}")
    return f"{left} = {call.operation}{generic}({', '.join(arguments)})"


def _operand(operand: Any, known: Mapping[str, str]) -> str:
    if isinstance(operand, str):
        return known[operand]
    if isinstance(operand, tuple):
        return f"[{', '.join(_operand(part, known) for part in operand)}]"
    return literal(operand)


def _entry(entry: Quantization) -> str:
    values = {**{name: array.tolist() for name, array in entry.tensors.items()}, **entry.attributes}
    return f"{entry.operation}({', '.join(f'{name} = {literal(value)}' for name, value in values.items())})"


def literal(value: Any) -> str:
    """Return a value as a literal. Raises DocumentError for infinity, and for text with both kinds of quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DocumentError(f"NNEF has no literal for {value}")
        return repr(value)
    if isinstance(value, str):
        quote = '"' if "'" in value else "'"
        if quote in value or not value.isprintable():
            raise DocumentError(f"NNEF has no literal for the text {value!a}")
        return f"{quote}{value}{quote}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))})"
    return str(int(value))
