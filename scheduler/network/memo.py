"""What passes remember of one network: schedule after schedule asks for the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

Made = TypeVar("Made")


class Memo:
    """Values that passes have made so far, a table for each kind of them; who makes a kind alone knows its keys."""

    def __init__(self) -> None:
        self._tables: dict[type, dict[Any, Any]] = {}

    def of(self, kind: type[Made]) -> dict[Hashable, Made]:
        """The table of a kind of value."""
        return self._tables.setdefault(kind, {})
