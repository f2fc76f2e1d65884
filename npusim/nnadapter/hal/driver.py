"""The interface of device drivers: the base class, and what the runtime passes to its methods.

class Doubler(nna.Driver):
    name, vendor, version = "doubler", "me", 1

    def validate_program(self, context, model):
        return [None if operation.kind == "mul" else "is no MUL" for operation in model.operations]

    def create_program(self, context, model, cache):
        return model

    def execute_program(self, program, inputs, outputs):
        outputs[0].write(inputs[0].read() * 2)

nna.register(Doubler)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from npusim.frontends.nnadapter.nnadapter_codes import DeviceType
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.frontends.nnadapter.operation_graphs import Network, PieceGraph, Step
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, TensorType
from npusim.nnadapter.hal.caller_memory import Access, read, write

Parser = Callable[[str], Any]
"""Parses the text of a property; raises ValueError or an NpusimError for an illegal one."""


class Properties(dict[str, Any]):
    """The parsed properties of a context that a driver knows, by key.

    text: the whole text of properties, as the context got it.
    """

    def __init__(self, text: str = "", values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.text = text


@dataclass(frozen=True)
class Submodel:
    """Operations that a driver validates or compiles: those of a model or of a piece.

    network: the whole model, with all shapes known.
    places:  the operations, by their places in `network.steps`.
    forced:  why operations must run on a CPU, by place.
    """

    network: Network
    places: tuple[int, ...]
    forced: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def whole(cls, network: Network) -> Submodel:
        """Return all operations of a model."""
        return cls(network, tuple(range(len(network.steps))))

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.network.name

    @property
    def operations(self) -> tuple[Step, ...]:
        """The operations in an order in which they can run; inputs and outputs are tensors by number."""
        return tuple(self.network.steps[place] for place in self.places)

    def graph(self, *, all_in_float: bool = False) -> PieceGraph:
        """Return the operations as a graph of npusim.

        all_in_float: whether quantized operations compute in floating point and truncate results (`builtin_device`).

        Raises an NNAdapterError for an operation that breaks a rule or that npusim does not have.
        """
        return self.network.piece(self.places, all_in_float=all_in_float)


@dataclass
class Cache:
    """The cache as `create_program` sees it.

    token, dir: name and folder of the compiled model in the cache.
    input_types, output_types: the types of the piece.
    buffer:     without a model, the program to restore. With a model, the driver writes its program here; if it writes
                nothing, the model is not cached.
    """

    token: str = ""
    dir: str = ""
    input_types: tuple[TensorType, ...] = ()
    output_types: tuple[TensorType, ...] = ()
    buffer: bytes = b""


@dataclass
class Argument:
    """One input or output of an execution.

    index:  its number among the inputs, or the outputs, of the program.
    memory: an object of the caller, whose structure only `access` knows.
    access: (memory, type) -> buffer. For an input it writes the real dimensions into `type`; for an output it makes the
            buffer large enough for `type`.
    type:   the type in the program.
    """

    index: int
    memory: object
    access: Access
    type: OperandType = field(repr=False)

    def read(self) -> Array:
        """Return the elements of an input. Raises an NNAdapterError if `access` returns none that fit."""
        return read(self.memory, self.access, self.type, f"input {self.index}")

    def write(self, array: Array) -> None:
        """Write the elements of an output. Raises an NNAdapterError if its buffer does not fit."""
        write(self.memory, self.access, self.type, array, f"output {self.index}")


class Driver:
    """The base class of device drivers; `register` makes a subclass known.

    name, vendor, version: of the device; a name consists of letters, digits, "_" and "-".
    type:  CPU, GPU or ACCELERATOR.
    keys:  the parsers of the properties that it knows.

    The runtime calls the methods in this order: `open` once per process, at the first `Device.acquire`;
    `create_context`; `validate_program`; `create_program`; `execute_program` any number of times; `destroy_program`;
    `destroy_context`; `close` when the process ends. Exceptions become DeviceInternalErrors of the application's call,
    unless they are NNAdapterErrors.
    """

    name: ClassVar[str] = ""
    vendor: ClassVar[str] = ""
    type: ClassVar[DeviceType] = DeviceType.ACCELERATOR
    version: ClassVar[int] = 1
    keys: ClassVar[Mapping[str, Parser]] = {}

    def open(self) -> object:
        """Return the device, which other methods get. Raises an exception if it is not available."""
        return None

    def close(self, device: object) -> None:
        """Close the device, because the process ends."""

    def create_context(
        self, device: object, properties: Properties, callback: Callable[..., Any] | None
    ) -> object:
        """Create the driver's context with properties; the driver may call `callback(event_id, user_data)`."""
        return properties

    def destroy_context(self, context: object) -> None:
        """Free a context."""

    validate_program: Any = None
    """(context, model) -> per operation of the `Submodel`, None or why the device cannot compute it. Without this
    method the device gets whole models only."""

    def create_program(self, context: object, model: Submodel | None, cache: Cache) -> object:
        """Return the program of a model; without a model, restore it from `cache.buffer`."""
        raise NotImplementedError("create_program is missing")

    def destroy_program(self, program: object) -> None:
        """Free a program."""

    def execute_program(
        self, program: object, inputs: Sequence[Argument], outputs: Sequence[Argument]
    ) -> float | None:
        """Read the inputs and write the outputs. Return the microseconds that the device took, or None."""
        raise NotImplementedError("execute_program is missing")
