"""Attributes that are 0 or 1: other numbers are refused, for ONNX Runtime takes them for 0 and others for 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import npusim

from .models import Single, model_of, written
from .singles import SINGLES

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

NO_FLAGS = {"axis", "qk_matmul_output_mode", "saturate", "to"}
"""Attributes with a default of 0 or 1 in these operations that are numbers, or that nothing depends on."""

SAID = ("0 or 1", "boolean", "bool", "keep", "Whether", "whether", "True", "true", "1)")
"""Words by which the standard describes a flag."""


def _flags() -> Iterator[tuple[Single, str]]:
    """The first case of each operation for each of its flags."""
    seen: set[tuple[str, str]] = {("TopK", "sorted")}  # without it any order will do, so a sorted one does
    for case in SINGLES:
        if "::" in case.operation:
            continue
        for name, attribute in onnx.defs.get_schema(case.name, case.opset).attributes.items():
            number = attribute.type == onnx.defs.OpSchema.AttrType.INT
            flag = number and attribute.default_value.i in (0, 1) and name not in NO_FLAGS
            if flag and any(word in attribute.description for word in SAID) and (case.name, name) not in seen:
                seen.add((case.name, name))
                yield case, name


@pytest.mark.parametrize(("case", "flag"), list(_flags()), ids=lambda value: getattr(value, "name", value))
def test_other_numbers_are_refused(case: Single, flag: str, tmp_path: Path) -> None:
    for number in (2, -1, 2**62):
        path = written(tmp_path, model_of(case._replace(attributes={**case.attributes, flag: number})))
        with pytest.raises(npusim.NpusimError) as fault:
            npusim.load(path)
        assert str(fault.value).endswith(f"{flag} is {number}, must be 0 or 1")
