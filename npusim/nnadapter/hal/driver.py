"""What a device is made of: the class that its driver is, and the structs that the runtime gives to it.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from npusim.frontends.nnadapter.nnadapter_codes import DeviceType
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.frontends.nnadapter.operation_graphs import Network, PieceGraph, Step
from npusim.isa.base.tensor import Array, TensorType
from npusim.nnadapter.hal.caller_memory import Access, read, write

Parser = Callable[[str], Any]
"""Makes a value of the text of a property; raises ValueError, or an NpusimError, for one that is none."""


class Properties(Mapping[str, Any]):
    """What a driver reads of the properties of a context: its own keys, parsed.

    text: the whole string, as the context was given it.
    """

    def __init__(self, text: str = "", values: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class Submodel:
    """Operations that a driver judges or compiles: all of a model, or a piece of it.

    network: the whole model, with all its shapes known.
    places:  the operations that are meant, by their places in `network.steps`.
    forced:  of those that are to run on a CPU although others could, by place, who says so.
    """

    network: Network
    places: tuple[int, ...]
    forced: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def whole(cls, network: Network) -> Submodel:
        """All operations of a model."""
        return cls(network, tuple(range(len(network.steps))))

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.network.name

    @property
    def operations(self) -> tuple[Step, ...]:
        """The operations, in an order in which they can run; inputs and outputs are tensors by number."""
        return tuple(self.network.steps[place] for place in self.places)

    def graph(self, *, in_reals: bool = False) -> PieceGraph:
        """The operations as a graph of npusim.

        in_reals: those on codes compute on real numbers between, and cut results off (`builtin_device`).

        Raises an NNAdapterError for an operation that breaks a rule or that npusim does not have.
        """
        return self.network.piece(self.places, in_reals=in_reals)


@dataclass
class Cache:
    """What `create_program` is told of the cache.

    token, dir:   where the compiled model is kept, or will be.
    input_types, output_types: of the piece.
    buffer:       given without a model: what to restore; with one, the driver leaves here what restores its program.
                  A driver that leaves nothing has no cache: its model is compiled each time.
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
    memory: whatever the caller gave; only `access` knows what it is.
    access: (memory, type) -> buffer. Of an input it writes the real dimensions into `type`; of an output it gets the
            type, and makes the buffer large enough.
    type:   what the program says of it.
    """

    index: int
    memory: object
    access: Access
    type: OperandType = field(repr=False)

    def read(self) -> Array:
        """The elements of an input. Raises an NNAdapterError where `access` gives none that fit."""
        return read(self.memory, self.access, self.type, f"input {self.index}")

    def write(self, array: Array) -> None:
        """Gives an output its elements. Raises likewise."""
        write(self.memory, self.access, self.type, array, f"output {self.index}")


class Driver:
    """What a new device writes: one class, which `register` makes known.

    name, vendor, version: what the device says of itself; a name is letters, digits, "_" and "-".
    type:  CPU, GPU or ACCELERATOR.
    keys:  the properties that it knows, each with what makes a value of the text.

    The runtime calls the methods in this order: `open` once per process, at the first `Device.acquire`;
    `create_context`; `validate_program`; `create_program`; `execute_program` any number of times; `destroy_program`;
    `destroy_context`; `close` when the process ends. What they raise is a DeviceInternalError of the call that led to
    them, unless it is an NNAdapterError itself.
    """

    name: ClassVar[str] = ""
    vendor: ClassVar[str] = ""
    type: ClassVar[DeviceType] = DeviceType.ACCELERATOR
    version: ClassVar[int] = 1
    keys: ClassVar[Mapping[str, Parser]] = {}

    def open(self) -> object:
        """The device; raises where it is not available."""
        return None

    def close(self, device: object) -> None:
        """The process ends."""

    def create_context(
        self, device: object, properties: Properties, callback: Callable[..., Any] | None
    ) -> object:
        """Create the driver's context with properties; the driver may call `callback(event_id, user_data)`."""
        return properties

    def destroy_context(self, context: object) -> None:
        """The context is no more."""

    validate_program: Any = None
    """(context, model) -> per operation of the `Submodel` None, or why the device cannot do it. It may be left out:
    then nobody can ask, and the device gets whole models only."""

    def create_program(self, context: object, model: Submodel | None, cache: Cache) -> object:
        """The program of a model; without one, restored from `cache.buffer`."""
        raise NotImplementedError("create_program is missing")

    def destroy_program(self, program: object) -> None:
        """The program is no more."""

    def execute_program(
        self, program: object, inputs: Sequence[Argument], outputs: Sequence[Argument]
    ) -> float | None:
        """Reads the inputs and writes the outputs. Returns the microseconds that it takes the device, if it knows."""
        raise NotImplementedError("execute_program is missing")
