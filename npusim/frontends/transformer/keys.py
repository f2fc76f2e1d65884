"""Reads single values of a `config.json`, with the key in each message about a fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from npusim.frontends.transformer.families import SIZES, Family
from npusim.isa.base.errors import FormatError

_ACTIVATIONS = {
    "silu": "swish", "swish": "swish", "relu": "relu", "gelu": "gelu", "gelu_new": "gelu", "gelu_fast": "gelu",
    "gelu_python": "gelu", "gelu_pytorch_tanh": "gelu",
}  # fmt: skip
"""Operators by the names of activations. All forms of GELU are the same here: a table of 256 values."""

_UNKNOWN_PARTS = (
    "num_local_experts", "num_experts", "n_routed_experts", "num_shared_experts", "n_shared_experts",
    "shared_expert_intermediate_size", "add_cross_attention", "is_encoder_decoder",
)  # fmt: skip
"""Keys that add parts to a network. A family that does not have the key cannot be built with the part."""

MOST = 1 << 24
"""Largest size in a configuration: no published model has one of a tenth of it."""
MOST_LAYERS = 1024
"""Most layers, and most experts of a layer; published models have at most 126 and 512."""


class Keys:
    """The values of a `config.json`, and its family's defaults for keys that it lacks.

    A null in the file overrides a default: a null window means no window.
    """

    def __init__(self, kind: str, given: Mapping[str, Any], family: Family, inside: bool) -> None:
        self.kind, self.family = kind, family
        sizes = dict(zip(SIZES, family.sizes, strict=True)) if inside else {}
        self.values = {**sizes, **family.defaults, **given}
        for key in _UNKNOWN_PARTS:
            if given.get(key) and key not in family.defaults:
                raise FormatError(f"{key} is {shown(given[key])}: npusim cannot build this part of {kind}")

    def size(self, key: str, default: int | None = None) -> int:
        """Return an integer of at least 0; the default if it is null or missing. Raises FormatError with the key."""
        return self._integer(key, default, 0, MOST)

    def count(self, key: str, default: int | None = None, most: int = MOST) -> int:
        """Return an integer of at least 1; the default if it is null or missing. Raises FormatError with the key."""
        return self._integer(key, default, 1, most)

    def _integer(self, key: str, default: int | None, least: int, most: int) -> int:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise FormatError(f"{key} is missing")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise FormatError(f"{key} is {shown(value)}, must be an integer, {least} to {most}")
        return value

    def number(self, key: str) -> float:
        """Return the value of a key as a float. Raises FormatError if it is no number."""
        value = self.values.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < MOST:
            raise FormatError(f"{key} is {shown(value)}, must be a number")
        return float(value)

    def flag(self, key: str, follow: bool = False) -> bool:
        """Return the truth value of a key, false for null. Keys that the family lacks are false, unless `follow`."""
        value = self.values.get(key) if follow or key in self.family.defaults else None
        if value is not None and not isinstance(value, bool):
            raise FormatError(f"{key} is {shown(value)}, must be true or false")
        return bool(value)

    def activation(self, key: str) -> str:
        """Return the operator of the activation that a key names."""
        name = self.values.get(key, "silu")
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise FormatError(f"{key} is {shown(name)}; npusim knows {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[name]

    def positive(self, key: str) -> bool:
        """Return whether the family has a key, and it is a number above 0."""
        return key in self.family.defaults and self.values[key] is not None and self.number(key) > 0


def shown(value: Any) -> str:
    """Return a value of a file as JSON for a message, cut to 60 characters."""
    return json.dumps(value, default=str)[:60]
