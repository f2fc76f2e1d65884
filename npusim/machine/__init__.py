"""The timed model of the NPU: front end, units, scratchpad banks and memory ports as one discrete-event simulation."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any


def _load_the_event_loop_alone() -> None:
    """Import simpy's events and resources without the rest of the package, which follows when somebody asks for it.

    The package itself looks up its version in the metadata of the installation. That takes as many instructions as a
    twelfth of a small run, and nothing here reads it.
    """
    spec = find_spec("simpy")
    assert spec is not None
    package = module_from_spec(spec)

    def rest(name: str) -> Any:
        if name not in ("__version__", "__all__") and name.startswith("__"):
            raise AttributeError(name)
        del package.__dict__["__getattr__"]
        assert spec.loader is not None
        spec.loader.exec_module(package)
        return getattr(package, name)

    sys.modules["simpy"] = package
    for module, name in (("core", "Environment"), ("events", "Event"), ("resources.resource", "Resource")):
        package.__dict__[name] = getattr(import_module(f"simpy.{module}"), name)
    package.__dict__["__getattr__"] = rest


if "simpy" not in sys.modules:
    _load_the_event_loop_alone()
