"""Tables over tables of another file."""

from __future__ import annotations

from typing import Any

import pytest

from npusim.isa.base.toml_file import merged

NEAR, FAR = {"name": "near", "size": 1, "ports": 2}, {"name": "far", "size": 9}


@pytest.mark.parametrize(
    ("base", "value", "result"),
    [
        (1, 2, 2),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        # Tables of one name are merged in the place of the first, others follow.
        ([NEAR, FAR], [{"name": "near", "size": 5}], [{"name": "near", "size": 5, "ports": 2}, FAR]),
        ([NEAR], [FAR], [NEAR, FAR]),
        # A name that stands twice is refused later, where its place is known.
        ([NEAR], [FAR, FAR], [NEAR, FAR, FAR]),
        # Everything else replaces what the base has.
        ([1, 2], [3], [3]),
        ([NEAR], [{"size": 5}], [{"size": 5}]),
        ([NEAR], [{"name": 5}], [{"name": 5}]),
        ([NEAR], {"name": "near"}, {"name": "near"}),
    ],
)
def test_values_are_merged_over_those_of_the_base(base: Any, value: Any, result: Any) -> None:
    assert merged({"key": base, "other": 0}, {"key": value}) == {"key": result, "other": 0}
