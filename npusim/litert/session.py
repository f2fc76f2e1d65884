"""The work of a delegate in one interpreter: it claims operators, runs partitions, and keeps their results."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress

from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.graph import Graph
from npusim.litert import handshake
from npusim.litert import process_memory as memory
from npusim.litert.c_structs import (
    OK,
    REPLACE_NODES,
    REPORT_ERROR,
    RESIZE_TENSOR,
    Context,
    DelegateParams,
    Registration,
    Tensor,
)
from npusim.litert.engines import Done, Engine, measured
from npusim.litert.litert_partition import Partition
from npusim.litert.process_memory import AbiError, Memory
from npusim.litert.source import PACKAGE, TRIED, Source, installed_version
from npusim.litert.subgraph import Selection, Shape, Subgraph
from npusim.numbers.run import RunResult


class Session:
    """A delegate in the interpreter of one model.

    LiteRT calls back with addresses of its structures. An error in a callback is kept as `fault` until the next
    callback of its kind succeeds.
    """

    def __init__(
        self,
        source: Source,
        kinds: frozenset[str],
        compiler: Callable[[Graph], Engine],
        apart: bool,
        given: bool = False,
    ) -> None:
        """Start a session for the model of an interpreter.

        apart: whether LiteRT puts each operator in a partition of its own.
        given: whether the caller gave the model, which then may differ from the interpreter's.
        """
        self.fault: NpusimError | None = None
        self.interrupted = False
        self._given = given
        self._source = source
        self._kinds = kinds
        self._compiler = compiler
        self._apart = apart
        self._subgraphs = [Subgraph(source.name, record) for record in source.subgraphs]
        decides = any(subgraph.decides for subgraph in self._subgraphs)
        # What is invoked, not what IF and WHILE run: signatures may have a subgraph each.
        count = len(self._subgraphs)
        self._roots, self._bodies = (range(1), range(1, count)) if decides else (range(count), range(0))
        self._of_context: dict[int, int] = {}
        self._partitions: dict[int, tuple[Partition, int]] = {}
        self._done: dict[int, list[Done]] = {}
        self._measured: list[RunResult] | None = None

    # The graph

    def prepare_graph(self, context: int, delegate: int, kernel: Registration) -> None:
        """Claim operators of a subgraph. Raises AbiError if LiteRT's structures are not as expected."""
        with memory.opened() as reading:
            try:
                seen = handshake.context_of(context, reading)
                number = self._which(context, seen, reading)
                record = self._subgraphs[number].record
                plan = handshake.plan_of(context, seen, record, reading)
            except AbiError as fault:
                if self._given:
                    raise AbiError(f"npusim.litert: model is not the interpreter's: {fault}") from None
                version = f"{PACKAGE} {installed_version()}".rstrip()
                raise AbiError(
                    f"npusim.litert: {version} does not show the model as the delegate expects: {fault}; "
                    f"tried with {PACKAGE} {TRIED}"
                ) from None
        self._of_context[context] = number
        claimed = self._subgraphs[number].claims(self._kinds, plan, self._apart)
        if not claimed:
            return
        nodes = ctypes.create_string_buffer(handshake.array(claimed))
        call = REPLACE_NODES(seen.ReplaceNodeSubsetsWithDelegateKernels)
        before = len(self._partitions)
        if call(context, kernel, ctypes.addressof(nodes), delegate) != OK or len(self._partitions) == before:
            raise AbiError("npusim.litert: LiteRT does not hand over the operators")

    def _which(self, context: int, seen: Context, reading: Memory) -> int:
        """Return the subgraph of a context: the first that fits, because contexts come in the file's order."""
        taken = {number for address, number in self._of_context.items() if address != context}
        misfits = []
        for number, subgraph in enumerate(self._subgraphs):
            if number in taken:
                continue
            misfit = handshake.misfit(seen, subgraph.record, reading, values=self._given)
            if not misfit:
                return number
            misfits.append(misfit)
        raise AbiError(next(iter(misfits), f"it has more than {len(taken)} subgraphs"))

    # Partitions

    def begin(self, key: int, context: int, params: DelegateParams) -> None:
        """Register a partition that LiteRT has made under `key`."""
        with memory.opened() as reading:
            subgraph = self._subgraphs[self._of_context[context]]
            count = len(subgraph.record.tensors)
            selection = Selection(
                reading.integers(params.nodes, "the operators of a partition"),
                reading.integers(params.inputs, "the inputs of a partition"),
                reading.integers(params.outputs, "the outputs of a partition"),
            )
        tensors = (*selection.inputs, *selection.outputs)
        operators = range(len(subgraph.record.operators))
        if not all(0 <= number < count for number in tensors) or not set(selection.operators) <= set(
            operators
        ):
            raise AbiError("npusim.litert: a partition has operators or tensors that the file has not")
        self._partitions[key] = Partition(subgraph, selection, self._compiler), self._of_context[context]

    def end(self, key: int) -> None:
        """Forget a partition that LiteRT has freed."""
        self._partitions.pop(key, None)

    def prepare(self, key: int, context: int) -> None:
        """Compile a partition for its current input shapes."""
        self.fault = None
        partition, _ = self._partitions[key]
        with memory.opened() as reading:
            partition.prepare(context, reading, lambda number, shape: _resize(context, number, shape))

    def invoke(self, key: int, context: int) -> None:
        """Compute a partition."""
        partition, subgraph = self._partitions[key]
        if self.fault is not None or self._begins(key, subgraph):
            self._done, self.fault = {}, None
        self._measured = None
        done = partition.invoke(context)
        earlier = [one._replace(outputs=None) for one in self._done.get(key, ())]
        self._done[key] = [*earlier, done]

    def _begins(self, key: int, subgraph: int) -> bool:
        """Return True if a partition is the first of an invoke. LiteRT does not tell, but a graph runs once per invoke.

        Partitions in the body of a loop run several times per invoke, so they only count if there are no others.
        """
        again = key in self._done
        of = {number: graph for number, (_, graph) in self._partitions.items()}
        if subgraph not in self._roots:
            return again and not any(graph in self._roots for graph in of.values())
        # A partition that LiteRT has given up ran before, so did one of another signature.
        return again or any(of.get(other) not in (subgraph, *self._bodies) for other in self._done)

    # What was done

    def runs(self) -> list[RunResult]:
        """Return the result of each partition in the last invoke, in the order of the model. Raises its error."""
        self.check()
        if self._measured is None:
            self._measured = [measured(self._source.name, self._done[key]) for key in sorted(self._done)]
        return self._measured

    def run(self) -> list[RunResult]:
        """Return the last invoke as one run on one machine, or as a run per partition on several devices."""
        self.check()
        everything = [done for key in sorted(self._done) for done in self._done[key]]
        if everything and all(done.launch is not None for done in everything):
            return [measured(self._source.name, everything)]
        return self.runs()

    def check(self) -> None:
        """Raise the error of the last failed callback."""
        if self.fault is not None:
            raise self.fault

    def failed(self, error: BaseException, context: int) -> None:
        """Keep an error, which may not leave a callback, and report it through LiteRT."""
        if isinstance(error, NpusimError):
            self.fault = error
        elif isinstance(error, KeyboardInterrupt):
            self.fault, self.interrupted = NpusimError("npusim.litert: interrupted"), True
        elif isinstance(error, MemoryError):
            self.fault = NpusimError("npusim.litert: not enough memory for the model on the simulated NPU")
        else:
            text = f"{type(error).__name__}: {error}"
            self.fault = NpusimError(f"npusim.litert: npusim itself fails: {text}; please report it")
        text = " ".join(str(self.fault).split())
        with suppress(AbiError), memory.opened() as reading:
            report = handshake.context_of(context, reading).ReportError
            # The text is a format, with nothing to be put in.
            REPORT_ERROR(report)(context, f"{text}\n".replace("%", "%%").encode())


def _resize(context: int, number: int, shape: Shape) -> None:
    """Set the shape of a tensor in LiteRT, which takes over the array of sizes."""
    seen = Context.from_address(context)
    sizes = handshake.array(shape)
    place = _allocator()(len(sizes))
    if not place:
        raise NpusimError("npusim.litert: no memory for the shape of a tensor")
    ctypes.memmove(place, sizes, len(sizes))
    tensor = seen.tensors + number * ctypes.sizeof(Tensor)
    if RESIZE_TENSOR(seen.ResizeTensor)(context, tensor, place) != OK:
        raise NpusimError(f"npusim.litert: LiteRT does not give tensor {number} the shape {list(shape)}")


def _allocator() -> Callable[[int], int | None]:
    """Return `malloc` of the C library, whose `free` LiteRT uses."""
    library = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
    allocate = library.malloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    return allocate
