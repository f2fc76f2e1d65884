"""From a result that is data to the same that shows itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
View = TypeVar("View")


def with_views(view: type[View], make: Callable[Given, Any]) -> Callable[Given, View]:
    """A function whose result is shown: `view` has the same fields as what the function makes."""

    @wraps(make)
    def shown(*given: Given.args, **named: Given.kwargs) -> View:
        return viewed(view, make(*given, **named))

    return shown


def viewed(view: type[View], data: Any) -> View:
    """A result as one of its views."""
    return view(**{each.name: getattr(data, each.name) for each in fields(data)})
