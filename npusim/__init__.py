"""npusim: compile neural networks for a parametric NPU and simulate them.

    import npusim
    result = npusim.run("mobilenet_v2", hw="edge-128")
    print(f"{result.latency_ms:.2f} ms, {result.energy_uj:.0f} uJ")

Names are imported when they are first used, so that `import npusim` costs nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim import models
    from npusim.isa.base.errors import NpusimError
    from npusim.isa.base.tensor import Quantization, TensorType
    from npusim.isa.hardware.hardware import Hardware
    from npusim.isa.program.program import Program
    from npusim.kernels.graph.builder import GraphBuilder
    from npusim.kernels.graph.caches import caches_in_place
    from npusim.kernels.graph.graph import Graph
    from npusim.kernels.operator.registered import register_operator, unregister_operator
    from npusim.quantization.quantization import quantize
    from npusim.quantization.result import Quantized
    from npusim.serving.service import serve
    from npusim.session.api import compile, hardware, load, load_program, save_program
    from npusim.session.generation import generate
    from npusim.session.inputs import reset_states, states
    from npusim.session.system_run import inferences, system
    from npusim.verification.verdicts import Verification
    from npusim.verification.verification import verify
    from npusim.views.comparison import Comparison, compare
    from npusim.views.run import RunResult, run, simulate
    from npusim.views.what_if import WhatIf, what_if

    __version__: str

# Installed, the rooms lie inside this package. In a checkout they lie beside it, and a Python that is started
# there (python -m pytest, python -m npusim) finds this folder before the installed package.
if not os.path.isdir(os.path.join(__path__[0], "isa")):
    __path__.append(os.path.dirname(os.path.abspath(__path__[0])))

__all__ = [
    "Comparison",
    "Graph",
    "GraphBuilder",
    "Hardware",
    "NpusimError",
    "Program",
    "Quantization",
    "Quantized",
    "RunResult",
    "TensorType",
    "Verification",
    "WhatIf",
    "__version__",
    "caches_in_place",
    "compare",
    "compile",
    "generate",
    "hardware",
    "inferences",
    "load",
    "load_program",
    "models",
    "quantize",
    "register_operator",
    "reset_states",
    "run",
    "save_program",
    "serve",
    "simulate",
    "states",
    "system",
    "unregister_operator",
    "verify",
    "what_if",
]

_HOMES = {
    "Comparison": "npusim.views.comparison",
    "Graph": "npusim.kernels.graph.graph",
    "GraphBuilder": "npusim.kernels.graph.builder",
    "Hardware": "npusim.isa.hardware.hardware",
    "NpusimError": "npusim.isa.base.errors",
    "Program": "npusim.isa.program.program",
    "Quantization": "npusim.isa.base.tensor",
    "Quantized": "npusim.quantization.result",
    "RunResult": "npusim.views.run",
    "TensorType": "npusim.isa.base.tensor",
    "Verification": "npusim.verification.verdicts",
    "WhatIf": "npusim.views.what_if",
    "caches_in_place": "npusim.kernels.graph.caches",
    "compare": "npusim.views.comparison",
    "compile": "npusim.session.api",
    "generate": "npusim.session.generation",
    "hardware": "npusim.session.api",
    "inferences": "npusim.session.system_run",
    "load": "npusim.session.api",
    "load_program": "npusim.session.api",
    "quantize": "npusim.quantization.quantization",
    "register_operator": "npusim.kernels.operator.registered",
    "reset_states": "npusim.session.inputs",
    "run": "npusim.views.run",
    "save_program": "npusim.session.api",
    "serve": "npusim.serving.service",
    "simulate": "npusim.views.run",
    "states": "npusim.session.inputs",
    "system": "npusim.session.system_run",
    "unregister_operator": "npusim.kernels.operator.registered",
    "verify": "npusim.verification.verification",
    "what_if": "npusim.views.what_if",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from npusim.isa.base.version import npusim_version

        return npusim_version()
    from importlib import import_module

    if name == "models":
        return import_module("npusim.models")
    if name not in _HOMES:
        raise AttributeError(f"module 'npusim' has no attribute {name!r}")

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
