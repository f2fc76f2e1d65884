"""A delegate for LiteRT, with which its interpreter runs a `.tflite` model on the simulated NPU.

    import npusim.litert
    from ai_edge_litert.interpreter import Interpreter

    delegate = npusim.litert.Delegate(hw="edge-128")
    interpreter = Interpreter(model_path="model.tflite", experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    ...
    interpreter.invoke()
    print(delegate.runs[0].latency_ms)

Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.litert.delegate import Delegate

__all__ = ["Delegate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'npusim.litert' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("npusim.litert.delegate"), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
