"""The preparation of a network for scheduling: everything that depends on graph and machine, but on no choice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from npusim.isa.base.errors import CompileError, GraphError
from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Data
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import layout
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import Graph, Node, State, call_of, quoted
from npusim.kernels.graph.inference import layer_name
from npusim.kernels.graph.rewrite import simplify
from npusim.kernels.graph.unknown import require_known
from npusim.kernels.lowering.move import INPUT
from npusim.kernels.lowering.work import Move, Pick, Work
from npusim.kernels.operator.element_types import in_words, refusal
from npusim.kernels.operator.operator import Alias, Call, Lowering, Operator, Part, Refusal
from npusim.kernels.table import check_lacks, known, operator
from npusim.scheduler.network.storage import Aliases, Body, HostStep, Item, join_aliases, on_the_way

if TYPE_CHECKING:
    from npusim.scheduler.network.periods import Shortened

Made = TypeVar("Made")
Answer = TypeVar("Answer")


class Memo:
    """A cache of values that passes compute for one network: one table per type of value.

    The code that creates a type of value chooses the keys of its table.
    """

    def __init__(self) -> None:
        self._tables: dict[type, dict[Any, Any]] = {}

    def of(self, kind: type[Made]) -> dict[Hashable, Made]:
        """Return the table of a type."""
        return self._tables.setdefault(kind, {})


class _Watched(Mapping[int, Data]):
    """The constants of a call. It notes whether somebody reads the data of one, beyond that it is constant."""

    __slots__ = ("_constants", "read")

    def __init__(self, constants: Mapping[int, Data]) -> None:
        self._constants = constants
        self.read = False

    def __getitem__(self, position: int) -> Data:
        self.read = True
        return self._constants[position]

    def __contains__(self, position: object) -> bool:
        return position in self._constants

    def __iter__(self) -> Iterator[int]:
        return iter(self._constants)

    def __len__(self) -> int:
        return len(self._constants)


class Asked:
    """A call, and the answers about all calls that are equal to it in parameters, types and positions of constants."""

    __slots__ = ("_known", "call")

    def __init__(self, call: Call, known: dict[str, Any]) -> None:
        self.call = call
        self._known = known

    def of(self, question: str, ask: Callable[[Call], Answer]) -> Answer:
        """Return `ask(call)`, or what it gave for an equal call.

        An answer for which the data of a constant was read is not kept, because equal calls may have other data. An
        answer may refer to the call only if the call has no constants.
        """
        if question in self._known:
            known: Answer = self._known[question]
            return known
        constants = self.call.constants
        watched = _Watched(constants)
        answer = ask(replace(self.call, constants=watched) if constants else self.call)
        if not watched.read:
            self._known[question] = answer
        return answer


class Answers:
    """A cache of what operators say of the calls of a network, so that equal layers are asked once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[str, Any]] = {}
        self._asked: dict[tuple[str, int], Asked] = {}

    def about(self, op: str, call: Call) -> Asked:
        """Return a call of the operator `op` with what is known of equal ones."""
        asked = self._asked.get((op, id(call)))
        if asked is None:
            # The text of parameters tells -0.0 from 0.0, and True from 1, which compare equal.
            key = op, repr(call.parameters), call.inputs, call.outputs, (*call.constants,)
            asked = self._asked[op, id(call)] = Asked(call, self._known.setdefault(key, {}))
        return asked


def check_states(graph: Graph) -> None:
    """Raise GraphError for a state whose next value cannot be written to the memory of the state.

    The layer that computes the next value runs on the host, which reads all operands before it writes one, or it is a
    copy, or it writes some values in place. The state may have one reader: that layer, or a layer before it. With other
    readers, the result would depend on the order of execution, and only operands define an order.
    """
    for state in graph.states:
        where = f'{graph.name}: state tensor "{graph.tensors[state.before].name}"'
        writers = [index for index, node in enumerate(graph.nodes) if state.after in node.outputs]
        if [other.after for other in graph.states].count(state.after) > 1 or not writers:
            raise GraphError(
                f"{where} shares its next value; it must be one of a layer, and of this state only"
            )
        _check_readers(graph, state, writers[0], where)


def _check_readers(graph: Graph, state: State, writer: int, where: str) -> None:
    if state.before in graph.outputs:
        raise GraphError(f"{where} is an output of the model; its next value may be one")
    readers = [at for at, node in enumerate(graph.nodes) for tensor in node.inputs if tensor == state.before]
    if len(readers) > 1:
        names = [f'"{graph.nodes[at].name}"' for at in readers[:3]]
        several = ", ".join(names) + (", ..." if len(readers) > 3 else "")
        raise GraphError(
            f"{where} is read {len(readers)} times, by {several}; it may be read once, by the layer that updates it"
        )
    if not readers or readers[0] > writer:
        raise GraphError(f'{where} must be read by "{graph.nodes[writer].name}", the layer that updates it')


MOST_COUNTS = tuple(
    spec.high + spec.name.startswith("count")  # a count is encoded as its value minus 1
    for spec in layout(Copy)
    if spec.name in ("count0", "count1", "count2", "size")
)
"""Most repetitions of the four dimensions of a copy, outermost first; the last is contiguous bytes."""


def pieces(move: Move) -> Iterator[Move]:
    """Split a move into moves with counts that an instruction can encode; none for a move of 0 bytes."""
    if 0 in move.counts:
        return
    for axis, most in enumerate(MOST_COUNTS[len(MOST_COUNTS) - len(move.counts) :]):
        count = move.counts[axis]
        if count > most:
            for first in range(0, count, most):
                yield from pieces(part_of(move, axis, first, min(most, count - first)))
            return
    yield move


def part_of(move: Move, axis: int, first: int, count: int) -> Move:
    """Return the part of a move with `count` repetitions of one axis, from `first` on."""
    inner = axis == len(move.counts) - 1
    target_stride = 1 if inner else move.target_strides[axis]
    source_stride = 0 if move.source is None else 1 if inner else move.source_strides[axis]
    return replace(
        move,
        target_offset=move.target_offset + first * target_stride,
        source_offset=move.source_offset + first * source_stride,
        counts=(*move.counts[:axis], count, *move.counts[axis + 1 :]),
    )


_MOST_STRIPES = 1024
"""Number of stripes of a tensor between fused layers, of which one must fit the memories. The scheduler tries up to
8,192, but scheduling a tensor of more than 1,024 times all memories takes minutes before it is refused."""


@dataclass(frozen=True, slots=True)
class Network:
    """A graph, simplified and checked, as items in the order of execution.

    uses:    operator and call of every node.
    aliases: tensors that share memory because their operator moves no bytes.
    memo:    cached values that passes computed.
    parts:   the equal parts of a graph that was shortened, if the program is to be lengthened again.
    """

    graph: Graph
    hardware: Hardware
    uses: tuple[tuple[Operator, Call], ...]
    items: tuple[Item, ...]
    aliases: Aliases
    memo: Memo = field(default_factory=Memo)
    parts: Shortened | None = None

    def equal_items(self, index: int) -> list[int]:
        """Return the items of all equal parts that correspond to an item, itself included; none outside of them."""
        node = self.items[index].node
        if self.parts is None or not self.parts.begin <= node < self.parts.first:
            return []
        of_nodes: dict[int, list[int]] = {alike: [] for alike in self.parts.like(node)}
        for number, item in enumerate(self.items):
            if item.node in of_nodes:
                of_nodes[item.node].append(number)
        place = of_nodes[node].index(index)
        return [numbers[place] for numbers in of_nodes.values() if place < len(numbers)]


class _Checked(NamedTuple):
    """What the checks of a graph found, which holds on every machine.

    operators:   those of its nodes when it was checked; a user may replace one of them by another.
    largest:     the tensors that need most memory (`_largest`).
    sized_bytes: the constants that are known by their size only. They are stored as they are.
    uses:        the operator and the call of nodes that keep the rules, by identity. They are nodes of the graph.
    """

    operators: list[Operator | None]
    largest: tuple[int, int, str]
    sized_bytes: int
    uses: dict[int, tuple[Operator, Call]]


_CHECKED = IdentityCache[_Checked]()


def _check(graph: Graph) -> _Checked:
    """Check a graph, or recall what was found. Raises GraphError for a graph that is not well formed."""
    checked = _CHECKED.get(graph)
    operators = [operator(node.op) if known(node.op) else None for node in graph.nodes]
    if checked is None or checked.operators != operators:
        check_bound(graph)
        _require_straight_line(graph)
        sized = sum(
            tensor.type.size_bytes for tensor in graph.tensors if tensor.constant and tensor.array is None
        )
        checked = _CHECKED.put(graph, _Checked(operators, _largest(graph), sized, {}))
    return checked


def check_whole(graph: Graph, hardware: Hardware) -> _Checked:
    """Check a graph as a whole, without the rules of its operators, and return what the checks found.

    Raises GraphError for a graph that is not well formed, HardwareError for a machine that lacks operators which npusim
    does not have, CompileError for tensors that do not fit into the memories.
    """
    check_lacks(hardware)
    checked = _check(graph)
    _require_room(graph, hardware, checked)
    require_known(graph)
    return checked


def prepare(graph: Graph, hardware: Hardware) -> Network:
    """Check a graph, simplify it, check the rules of its operators and lower them.

    Raises GraphError for a graph that is not well formed and for operators that are malformed or unknown, HardwareError
    for a machine that lacks operators which npusim does not have.
    """
    checked = check_whole(graph, hardware)
    own = {id(node) for node in graph.nodes}
    graph = simplify(graph, hardware)
    answers = Answers()
    uses = tuple(_use(graph, node, checked.uses if id(node) in own else {}, answers) for node in graph.nodes)
    check_states(graph)
    nexts = {state.after for state in graph.states}
    updates = [not nexts.isdisjoint(node.outputs) for node in graph.nodes]
    aliases, free = join_aliases(graph, _aliases(uses, updates))
    befores = {state.before for state in graph.states}
    calls = [answers.about(node.op, call) for node, (_, call) in zip(graph.nodes, uses, strict=True)]
    ways = [
        _way(node, entry, asked, hardware)
        for node, (entry, _), asked in zip(graph.nodes, uses, calls, strict=True)
    ]
    ways = [
        _state_way(node, way, befores, entry.updates and _same_place(aliases, node)) if update else way
        for node, way, update, (entry, _) in zip(graph.nodes, ways, updates, uses, strict=True)
    ]
    in_place: set[int] = set()
    updating = [
        number
        for number, (way, (entry, _)) in enumerate(zip(ways, uses, strict=True))
        if entry.updates and isinstance(way, Lowering)
    ]
    if updating:
        from npusim.scheduler.network.in_place import update_in_place  # few networks update tensors

        aliases, in_place = update_in_place(graph, aliases, updating)
    items = [
        Item(node, body)
        for node, (way, asked) in enumerate(zip(ways, calls, strict=True))
        if node not in free
        for body in _lower(way, asked, hardware)
        if not (node in in_place and isinstance(body, Move) and body.source == INPUT)
    ]
    return Network(graph, hardware, uses, on_the_way(graph, items, hardware), aliases)


def _largest(graph: Graph) -> tuple[int, int, str]:
    """Return the tensors that need most memory: the bytes they need, the bytes they have, and words for a message.

    All inputs are placed at the same time, and each output as a whole. Of a tensor between fused layers only a stripe
    is placed (`_MOST_STRIPES`). Constants with values are left out, because compression may store them in fewer bits.
    """
    inputs = sum(graph.tensors[number].type.size_bytes for number in graph.inputs)
    needs = [(inputs, inputs, "its inputs take")]
    for number, tensor in enumerate(graph.tensors):
        if tensor.bound and not tensor.constant:
            size, whole = tensor.type.size_bytes, number in graph.outputs
            needs.append(
                (size if whole else size // _MOST_STRIPES, size, f"tensor {quoted(tensor.name)} takes")
            )
    return max(needs)


def _require_room(graph: Graph, hardware: Hardware, checked: _Checked) -> None:
    """Raise CompileError for tensors that cannot fit into the memories, before time is spent on scheduling."""
    space = hardware.holder("constants")
    if checked.sized_bytes > (has := hardware.memory_bytes(space)):
        name = hardware.memory_name(space)
        least = checked.sized_bytes >> (20 if space == Space.DRAM else 10)
        raise CompileError(
            f"{graph.name}: constants alone take {checked.sized_bytes:,} bytes, the memory {name} of {hardware.name} "
            f"has {has:,}; give more than {hardware.size_key(space)}={least}, or a smaller model"
        )
    room = sum(hardware.memory_bytes(space) for space in hardware.spaces)
    need, size, what = checked.largest
    if need > room:
        raise CompileError(
            f"{graph.name}: {what} {size:,} bytes, all memories of {hardware.name} have {room:,} (dram.size_mib, the "
            "scratchpad and others); give smaller sizes, or hardware with more"
        )


def _require_straight_line(graph: Graph) -> None:
    for node in graph.nodes:
        if node.bodies:
            where = f"{graph.name}: {layer_name(node)}"
            raise GraphError(
                f"{where} decides, so the model is several programs; npusim run takes it, this takes one program"
            )


def _use(
    graph: Graph, node: Node, uses: dict[int, tuple[Operator, Call]], answers: Answers
) -> tuple[Operator, Call]:
    """Return the operator and call of a node, and remember them. Raises GraphError for a call that breaks a rule."""
    use = uses.get(id(node))
    if use is None:
        use = uses[id(node)] = _checked(graph, node, answers)
    return use


def _checked(graph: Graph, node: Node, answers: Answers) -> tuple[Operator, Call]:
    """Return the operator and call of a node. Raises GraphError if a rule of the operator is broken."""
    try:
        entry = operator(node.op)
    except GraphError as error:
        raise GraphError(f'{graph.name}: layer "{node.name}": {error}') from None
    call = call_of(graph, node)
    if broken := answers.about(node.op, call).of("broken rule", entry.broken_rule):
        where = f'{graph.name}: {node.op} "{node.name}"'
        if entry.types and broken == in_words(entry.types):
            raise GraphError(f"{where} {refusal(entry.types, call.inputs, call.outputs)}")
        raise GraphError(f"{where} breaks a rule: {broken}")
    return entry, call


_STATE = "gives the next value of a state, in its place: the host reads all of the old one before it writes"


def _way(node: Node, entry: Operator, asked: Asked, hardware: Hardware) -> Lowering | Refusal:
    """Return how the NPU computes a node, or why the host does."""
    if node.on_host:
        return Refusal(node.on_host)
    return asked.of("way", lambda call: entry.lowering(call, hardware) or entry.host_reason(call, hardware))


def _same_place(aliases: Aliases, node: Node) -> bool:
    """Return whether the first input and output of a node share memory."""
    before, after = node.inputs[0], node.outputs[0]
    return before is not None and aliases.root(before) == aliases.root(after)


def _state_way(node: Node, way: Lowering | Refusal, befores: set[int], in_place: bool) -> Lowering | Refusal:
    """Return how a node that updates a state is computed.

    The NPU does it if the node copies another tensor, or writes some values of the state in place. Else the host does.
    """
    copies = isinstance(way, Lowering) and way.unit == "dma" and befores.isdisjoint(node.inputs)
    return way if copies or (in_place and isinstance(way, Lowering)) else Refusal(_STATE)


def _lower(way: Lowering | Refusal, asked: Asked, hardware: Hardware) -> Sequence[Body]:
    """Return what the NPU or the host executes for a call. Equal calls without constants share it."""
    if not any(output.elements for output in asked.call.outputs):
        return ()  # all outputs are empty, so no unit has anything to compute
    if isinstance(way, Refusal):
        return (HostStep(*way),)
    if asked.call.constants:
        return _lowered(way, asked.call, hardware)
    return [_apart(body) for body in asked.of("lowered", lambda call: _lowered(way, call, hardware))]


def _lowered(way: Lowering, call: Call, hardware: Hardware) -> Sequence[Body]:
    return [body for part in way.lower(call, hardware) for body in _bodies(part, hardware)]


def _apart(body: Body) -> Body:
    """Return a work with constants as another object, because each such work has its own place for them in memory."""
    apart = isinstance(body, Work) and body.constant_bytes(0, body.channels)
    return replace(body) if apart else body


def _bodies(part: Part, hardware: Hardware) -> Iterable[Body]:
    if isinstance(part, Move):
        return pieces(part)
    if isinstance(part, Pick):
        from npusim.scheduler.network.picks import picks  # only where a network picks rows

        return picks(part, hardware)
    assert isinstance(part, Work)
    return (part,)


def _aliases(uses: Sequence[tuple[Operator, Call]], updates: Sequence[bool]) -> dict[int, tuple[Alias, ...]]:
    """Return the aliases by node, for nodes that move no bytes if their operands share memory.

    Nodes that update a state are left out.
    """
    aliases = {}
    for node, ((entry, call), update) in enumerate(zip(uses, updates, strict=True)):
        parts = entry.alias(call) if entry.alias is not None and not update else None
        if parts:
            aliases[node] = parts
    return aliases
