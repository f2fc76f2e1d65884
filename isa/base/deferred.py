"""Import modules of a package without the package's own `__init__.py`, which may import far more than they need."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_OF_INIT = ("__version__", "__all__")
"""Names with underscores that `__init__.py` sets. The import system asks for others, which are no reason to run it."""


def deferred(name: str) -> ModuleType:
    """Import a package, but execute its `__init__.py` only when somebody asks for an attribute that is not set yet.

    Raises ModuleNotFoundError if the package is not installed.
    """
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package, loader = module_from_spec(spec), spec.loader

    def complete() -> None:
        package.__dict__.pop("__getattr__", None)
        package.__dict__.pop("__dir__", None)
        loader.exec_module(package)

    def attribute(name: str) -> Any:
        if name.startswith("__") and name not in _OF_INIT:
            raise AttributeError(name)
        complete()
        return getattr(package, name)

    def names() -> list[str]:
        complete()
        return sorted(vars(package))

    vars(package).update(__getattr__=attribute, __dir__=names)
    sys.modules[name] = package
    return package
