"""The conversion of plain results to the public classes that can show themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
View = TypeVar("View")


def with_views(view: type[View], make: Callable[Given, Any]) -> Callable[Given, View]:
    """Return a function that converts the result of `make` to the class `view`, which has the same fields."""

    @wraps(make)
    def shown(*given: Given.args, **named: Given.kwargs) -> View:
        return viewed(view, make(*given, **named))

    return shown


def viewed(view: type[View], data: Any) -> View:
    """Convert a plain result to a class with the same fields."""
    return view(**{field.name: getattr(data, field.name) for field in fields(data)})
