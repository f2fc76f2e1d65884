"""Objects that nobody expects as arguments: every entry refuses them with an NNAdapterError of one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from npusim import nnadapter as nna


class Awkward:
    """It cannot be shown, compared or hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __repr__(self) -> str:
        raise RuntimeError("shown")


def npu() -> nna.Context:
    """A context of one device."""
    return nna.Context([nna.Device.acquire("npusim")])


ENTRIES: dict[str, Callable[[Any], Any]] = {
    "Device.acquire": nna.Device.acquire,
    "Context": nna.Context,
    "Context of a list": lambda x: nna.Context([x]),
    "Context.properties": lambda x: nna.Context([nna.Device.acquire("npusim")], x),
    "Context.callback": lambda x: nna.Context([nna.Device.acquire("npusim")], "", x),
    "Context.supported_operations": lambda x: npu().supported_operations(x),
    "Compilation.model": lambda x: nna.Compilation(x, npu()),
    "Compilation.context": lambda x: nna.Compilation(None, x),
    "Compilation.partition": lambda x: nna.Compilation(None, npu(), partition=x),
    "Compilation.in_float": lambda x: nna.Compilation(None, npu(), in_float=x),
    "Compilation.token": lambda x: nna.Compilation(None, npu(), token=x),
    "Compilation.buffer": lambda x: nna.Compilation(None, npu(), token="t", buffer=x),
    "Compilation.cache_dir": lambda x: nna.Compilation(None, npu(), cache_dir=x),
    "Execution": nna.Execution,
    "register": nna.register,
    "register_preset.name": lambda x: nna.register_preset(x, "edge-64"),
    "register_preset.hardware": lambda x: nna.register_preset("awkward", x),
    "unregister": nna.unregister,
    "Partition.read": nna.Partition.read,
    "from_file": nna.from_file,
    "from_file.dynamic": lambda x: nna.from_file("digits_cnn", dynamic={"a": x}),
    "from_graph": nna.from_graph,
    "from_nn_hal": nna.from_nn_hal,
    "Config.device_names": lambda x: nna.Config().set_nnadapter_device_names(x),
    "Config.properties": lambda x: nna.Config().set_nnadapter_context_properties(x),
    "Config.callback": lambda x: nna.Config().set_nnadapter_context_callback(x),
    "Config.cache_dir": lambda x: nna.Config().set_nnadapter_model_cache_dir(x),
    "Config.cache_buffers": lambda x: nna.Config().set_nnadapter_model_cache_buffers(x, x),
    "Config.partition": lambda x: nna.Config().set_nnadapter_subgraph_partition_config_path(x),
    "Config.shapes": lambda x: nna.Config().set_nnadapter_dynamic_shape_info(x),
    "Config.compile": lambda x: nna.Config().compile(x),
}

THINGS: dict[str, Any] = {
    "awkward": Awkward(),
    "list": [Awkward()],
    "nan": float("nan"),
    "bytes": b"\xff",
    "zero": "\0",
    "long": "a" * 10_000,
    "number": 5,
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("thing", THINGS)
def test_every_entry_refuses_what_it_cannot_take(entry: str, thing: str) -> None:
    taken = {("Compilation.token", "zero"), ("Compilation.token", "long")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ENTRIES[entry](THINGS[thing])
        except nna.NNAdapterError as fault:
            said = str(fault)
        else:
            said = ""
    assert said or (entry, thing) in TAKEN or (entry, thing) in taken
    assert "\n" not in said
    assert len(said) < 4100


TAKEN = {
    ("Config.cache_dir", "long"),
    ("Compilation.cache_dir", "long"),
    ("Compilation.buffer", "bytes"),
}
"""What is a folder, or a buffer, as far as can be said before it is used."""
