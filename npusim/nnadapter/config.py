"""Settings of a framework: the devices that a model may use, and how. The names are those of Paddle Lite.

config = nna.Config()
config.set_nnadapter_device_names(["npusim", "npusim_host"])
config.set_nnadapter_model_cache_dir("cache")
compilation = config.compile("model.tflite")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, NNAdapterError, text_of
from npusim.nnadapter.cache.cache_folder import checked_folder
from npusim.nnadapter.cache_store import cache_arguments
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_context import Context, Device
from npusim.nnadapter.device_partition import Partition
from npusim.nnadapter.gears import Shapes, require_shapes, with_gears
from npusim.nnadapter.hal import properties
from npusim.nnadapter.models import from_file


def check_nnadapter_device_name(name: str) -> bool:
    """Return whether a device of this name exists and can be opened."""
    try:
        Device.acquire(name).release()
    except NNAdapterError:
        return False
    return True


class Config:
    """Settings for a model, with the defaults of `Context` and `Compilation`."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._properties = ""
        self._callback: Callable[..., Any] | None = None
        self._folder: Path | None = None
        self._buffers: dict[str, bytes] = {}
        self._forced: Partition | None = None
        self._in_float: Partition | None = None
        self._shapes: Shapes = {}

    @staticmethod
    def check_nnadapter_device_name(name: str) -> bool:
        """Return whether a device of this name exists and can be opened."""
        return check_nnadapter_device_name(name)

    def set_nnadapter_device_names(self, names: Sequence[str]) -> None:
        """Set the devices that the model may use, in order of preference. Raises InvalidParameter for an empty list."""
        several = isinstance(names, Sequence) and not isinstance(names, (str, bytes)) and len(names) > 0
        if not several or not all(isinstance(name, str) for name in names):
            raise InvalidParameter(f"device names: is {text_of(names)}, must be a list of one name or more")
        self._names = list(names)

    def set_nnadapter_context_properties(self, text: str) -> None:
        """Set the device properties, `KEY=VALUE;KEY=VALUE;`. Raises InvalidParameter for a malformed section."""
        properties.parse(text)
        self._properties = text

    def set_nnadapter_context_callback(self, callback: Callable[..., Any] | None) -> None:
        """Set the function that drivers call as (event_id, user_data). Raises InvalidParameter for anything else."""
        if callback is not None and not callable(callback):
            raise InvalidParameter(f"callback: is {text_of(callback)}, must be a function or None")
        self._callback = callback

    def set_nnadapter_model_cache_dir(self, folder: str | Path) -> None:
        """Set the cache folder of compiled models. Raises InvalidParameter."""
        self._folder = checked_folder(folder)

    def set_nnadapter_model_cache_buffers(self, token: str, buffer: bytes) -> None:
        """Set the cached model in memory from which a model with this token is restored. Raises InvalidParameter."""
        name, _, data = cache_arguments(token, None, buffer)
        if name is None or data is None:
            raise InvalidParameter("cache buffers: a token and the bytes of a .nnc file must be given")
        self._buffers[name] = data

    def set_nnadapter_subgraph_partition_config_path(self, path: str | Path) -> None:
        """Set a partition file, which forces operators to the CPU. Raises InvalidParameter for a file with faults."""
        self._forced = Partition.read(path)

    def set_nnadapter_subgraph_partition_config_buffer(self, text: str) -> None:
        """Set the content of a partition file. Raises InvalidParameter for faults."""
        self._forced = Partition.parse(text)

    def set_nnadapter_mixed_precision_quantization_config_path(self, path: str | Path) -> None:
        """Set a file in the format of a partition file with the operators that compute in floating point."""
        self._in_float = Partition.read(path)

    def set_nnadapter_mixed_precision_quantization_config_buffer(self, text: str) -> None:
        """Set the content of a file with the operators that compute in floating point."""
        self._in_float = Partition.parse(text)

    def set_nnadapter_dynamic_shape_info(self, shapes: Shapes) -> None:
        """Set the shapes that inputs with open sizes may take, by name: shape k of each is gear k."""
        require_shapes(shapes)
        self._shapes = dict(shapes)

    def context(self) -> Context:
        """Return a context of the devices. Raises InvalidParameter if none are set, DeviceNotFound."""
        if not self._names:
            raise InvalidParameter("device names: are not set (set_nnadapter_device_names)")
        devices = [Device.acquire(name) for name in self._names]
        return Context(devices, self._properties, self._callback)

    def compile(self, model: Model | str | Path, context: Context | None = None) -> Compilation:
        """Compile a model, or a model file, in a new context if none is given.

        Raises InvalidParameter, and what `Compilation.finish` raises.
        """
        if isinstance(model, Model):
            network = with_gears(model, self._shapes) if self._shapes else model
        else:
            network = from_file(model, dynamic=self._shapes)
        own = context or self.context()
        settings: dict[str, Any] = {
            "cache_dir": self._folder,
            "partition": self._forced,
            "in_float": self._in_float,
        }
        compilation = Compilation(network, own, **settings)
        token = compilation.token or ""
        if token in self._buffers:
            compilation = Compilation(network, own, token=token, buffer=self._buffers[token], **settings)
        compilation.finish()
        return compilation
