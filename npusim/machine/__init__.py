"""The timed model of the NPU: front end, units, scratchpad banks and memory ports as one discrete-event simulation."""

from __future__ import annotations

import sys
from importlib import import_module

from npusim.isa.base.deferred import deferred


def _load_the_event_loop_alone() -> None:
    """Import simpy's events and resources without the rest of the package, which follows when somebody asks for it.

    The package itself looks up its version in the metadata of the installation. That takes as many instructions as a
    twelfth of a small run, and nothing here reads it.
    """
    package = deferred("simpy")
    for module, name in (("core", "Environment"), ("events", "Event"), ("resources.resource", "Resource")):
        setattr(package, name, getattr(import_module(f"simpy.{module}"), name))


if "simpy" not in sys.modules:
    _load_the_event_loop_alone()
