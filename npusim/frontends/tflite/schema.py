"""The generated classes of the PyPI package `tflite`, each imported when a file needs it.

`import tflite` imports the classes of all 180 tables of the schema, which took a sixteenth of a small run; a file has
tables of about fifteen. Until somebody else asks the package for a name, only its submodules are imported.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_PACKAGE = "tflite"


def generated(name: str) -> Any:
    """Return a class that flatc generated for a table or enumeration of the schema, such as "Conv2DOptions"."""
    if _PACKAGE not in sys.modules:
        sys.modules[_PACKAGE] = _deferred()
    found = getattr(import_module(f"{_PACKAGE}.{name}"), name)
    # The import set the package's attribute to the submodule, where the whole package has the class.
    setattr(sys.modules[_PACKAGE], name, found)
    return found


def _deferred() -> ModuleType:
    """Return the package before its `__init__.py` is executed, which the first unknown attribute does."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {_PACKAGE!r}", name=_PACKAGE)
    package, loader = module_from_spec(spec), spec.loader

    def complete() -> None:
        package.__dict__.pop("__getattr__", None)
        package.__dict__.pop("__dir__", None)
        loader.exec_module(package)

    def attribute(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        complete()
        return getattr(package, name)

    def names() -> list[str]:
        complete()
        return sorted(vars(package))

    vars(package).update(__getattr__=attribute, __dir__=names)
    return package
