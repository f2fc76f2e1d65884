"""A rewritten graph as the tables of a file, for the element types that LiteRT's kernels take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from npusim.frontends.inexpressible import Refusals, for_every_node
from npusim.frontends.tflite.export.tflite_wording import Wording, narrow_bias, options_of, wording
from npusim.frontends.tflite.flatbuffer import FileOperator, FileSubgraph, FileTensor, version
from npusim.frontends.tflite.operators import DECIDING, OPERATORS, Deciding, Translation
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Graph, Node, Origin, call_of, quoted
from npusim.kernels.operator.operands import quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

_ABSENT = -1
_CONTROL = {row.op: (code, row) for code, row in DECIDING.items()}


def subgraphs_of(graph: Graph, refusals: Refusals) -> list[FileSubgraph]:
    """Return the subgraphs of a rewritten graph, its own first. Layers that TFLite lacks are added to the refusals.

    Raises GraphError for states that no recurrent operator updates.
    """
    subgraphs: list[FileSubgraph | None] = []
    _Subgraph(graph, subgraphs, refusals).write()
    return [subgraph for subgraph in subgraphs if subgraph is not None]


def fields_of(options: str) -> tuple[str, ...]:
    """Return the fields of an options table of the schema."""
    import tflite

    start = f"{options}Add"
    return tuple(name.removeprefix(start) for name in dir(tflite) if name.startswith(start))


class _Subgraph:
    """A subgraph of a TFLite file under construction; `at` maps the tensors of the graph to those of the file.

    A state is one variable of the file, before and after its update.
    """

    def __init__(self, graph: Graph, subgraphs: list[FileSubgraph | None], refusals: Refusals) -> None:
        self.graph = graph
        self.refusals = refusals
        self.subgraphs = subgraphs
        self.number = len(subgraphs)
        subgraphs.append(None)
        self.tensors: list[FileTensor] = []
        self.operators: list[FileOperator] = []
        self.at: dict[int, int] = {}
        self.now = {state.after: state.before for state in graph.states}
        self.updated: set[int] = set()

    def write(self) -> int:
        """Store the subgraph among the subgraphs of the file, and return its number."""
        graph = self.graph
        inputs = [self.tensor(number) for number in graph.inputs]
        for_every_node(graph, self.node, self.refusals)
        for state in graph.states:
            if state.before not in self.updated and not any(
                map(self.refusals.has, self.readers(state.before))
            ):
                name = quoted(graph.tensors[state.before].name)
                raise GraphError(f"state {name}: TFLite has states only within recurrent operators")
        outputs = [self.tensor(number) for number in graph.outputs]
        self.subgraphs[self.number] = FileSubgraph(graph.name, self.tensors, self.operators, inputs, outputs)
        return self.number

    def readers(self, number: int) -> list[str]:
        """Return the names of the layers that take a tensor."""
        return [node.name for node in self.graph.nodes if number in node.inputs]

    # Tensors

    def tensor(self, number: int) -> int:
        """Return the number of a tensor in the file."""
        if number in self.now:
            return self.tensor(self.now[number])
        if number not in self.at:
            tensor, origin = self.graph.tensors[number], self.graph.origin(number)
            if origin is Origin.SIZED:
                raise GraphError(f"constant {quoted(tensor.name)} is known by its size only")
            self.at[number] = self.add(
                FileTensor(tensor.name, tensor.type, tensor.array, origin is Origin.STATE)
            )
        return self.at[number]

    def add(self, tensor: FileTensor) -> int:
        """Add a tensor to the file, and return its number."""
        import tflite

        if not hasattr(tflite.TensorType, tensor.type.dtype.upper()):
            raise GraphError(f"TFLite has no tensors of {tensor.type.dtype}")
        if tensor.data is not None and not tensor.data.size:
            # A reader takes an empty buffer for "no data", and what nobody writes for empty.
            tensor = replace(tensor, data=None)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def operand(self, number: int | None) -> int:
        """Return the number of an operand in the file; -1 if it is absent. Raises GraphError for an updated state."""
        if number is None:
            return _ABSENT
        if number in self.updated:
            raise GraphError(f"reads the state {quoted(self.graph.tensors[number].name)} after its update")
        return self.tensor(number)

    # Operators

    def node(self, node: Node) -> None:
        """Add a node."""
        if node.op in _CONTROL:
            self.operators.append(self.deciding(node, *_CONTROL[node.op]))
            return
        call = call_of(self.graph, node)
        words = wording(node.op, call)
        check_types(words.code, call)
        row = OPERATORS[words.code]
        own, states = self.results(node, row)
        inputs = self.inputs(node, row, words)
        fields = dict(words.fields)
        if row.options is not None:
            fields = options_of(node.parameters, fields_of(row.options), words.fields)
        intermediates = [self.add(FileTensor(f"{node.name}/scale", kind)) for kind in words.intermediates]
        self.operators.append(
            FileOperator(
                words.code,
                self.version(words.code, inputs),
                tuple(inputs),
                tuple(map(self.tensor, own)),
                words.options or row.options or "",
                fields,
                words.custom_options,
                tuple(intermediates),
            )
        )
        self.updated.update(states)

    def version(self, code: str, inputs: Iterable[int]) -> int:
        """Return the version of an operator with these operands."""
        kinds = [self.tensors[number].type for number in inputs if number != _ABSENT]
        return version(code, kinds[0], kinds[1] if len(kinds) > 1 else None)

    def inputs(self, node: Node, row: Translation, words: Wording) -> list[int]:
        """Return the operands in the file's order: inputs of the node, and its parameters as constants."""
        keeps = row.keeps if row.keeps is not None else range(len(node.inputs))
        operands = {
            position: self.operand(number) for position, number in zip(keeps, node.inputs, strict=False)
        }
        for position, data in words.constants.items():
            codes = self.graph.tensors[node.outputs[0]].type.quantization if position in words.codes else None
            kind = TensorType(data.dtype.name, data.shape, codes)
            operands[position] = self.add(FileTensor(f"{node.name}/operand_{position}", kind, data))
        count = max(operands, default=-1) + 1
        while count > max(row.required, words.operands) and operands.get(count - 1, _ABSENT) == _ABSENT:
            count -= 1
        return [operands.get(position, _ABSENT) for position in range(count)]

    def results(self, node: Node, row: Translation) -> tuple[tuple[int, ...], list[int]]:
        """Return the results that the file has, and the old values of the states that the node updates."""
        positions = operator(node.op).states
        states = [node.inputs[position] for position in positions if position < len(node.inputs)]
        written = [
            number for number in states if number is not None and self.graph.origin(number) is Origin.STATE
        ]
        if not positions:
            return node.outputs, []
        own = node.outputs[: len(node.outputs) - len(written)]
        if row.results is not None and len(own) != row.results:
            raise GraphError(
                "TFLite keeps the states of the operator from run to run, the graph has them apart"
            )
        if len(written) != len(states) or [self.now.get(n) for n in node.outputs[len(own) :]] != written:
            raise GraphError("TFLite has states only that the operator itself keeps from run to run")
        return own, written

    def deciding(self, node: Node, code: str, row: Deciding) -> FileOperator:
        """Return the operator of a node with bodies, which become subgraphs."""
        numbers = [_Subgraph(body, self.subgraphs, self.refusals).write() for body in node.bodies]
        fields = dict(zip(row.bodies, numbers, strict=True))
        inputs = tuple(map(self.operand, node.inputs))
        return FileOperator(code, 1, inputs, tuple(map(self.tensor, node.outputs)), row.options, fields)


_EIGHT_BITS = ("int8", "uint8")
_COMPUTED = (*_EIGHT_BITS, "float32")
_WORDS = (*_COMPUTED, "int16")
_COUNTED = (*_WORDS, "int32", "int64")
_MOVED = (*_COUNTED, "bool")
_DEEP = (*_COMPUTED, "int32", "int64")
_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_MAIN = {"SELECT": 1, "SELECT_V2": 1, "EMBEDDING_LOOKUP": 1, "HASHTABLE_LOOKUP": 2}
"""The operand whose type counts, if it is not the first."""


def _of(types: tuple[str, ...], *codes: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(codes, types)


TYPES: dict[str, tuple[str, ...]] = {
    **_of(
        _MOVED, "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP",
        "EQUAL", "EXPAND_DIMS", "FILL", "GATHER", "GATHER_ND", "HASHTABLE_LOOKUP", "MIRROR_PAD", "NOT_EQUAL", "PAD",
        "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "REVERSE_V2", "SELECT", "SELECT_V2", "SLICE", "SQUEEZE",
        "SPACE_TO_BATCH_ND", "STRIDED_SLICE", "TILE", "TRANSPOSE",
    ),
    **_of((*_MOVED, "float16"), "CAST"),
    **_of(
        _COUNTED, "ADD", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "MAXIMUM", "MINIMUM", "MUL", "PACK", "SPLIT",
        "SPLIT_V", "SUB", "TOPK_V2", "MEAN",
    ),
    **_of(
        _WORDS, "AVERAGE_POOL_2D", "LEAKY_RELU", "MAX_POOL_2D", "QUANTIZE", "RELU", "RELU6", "RESIZE_BILINEAR",
        "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "GELU", "LOGISTIC", "PRELU", "RESIZE_NEAREST_NEIGHBOR",
        "SOFTMAX", "TANH", "TRANSPOSE_CONV",
    ),
    **_of(_COMPUTED, "HARD_SWISH", "L2_NORMALIZATION", "LOG_SOFTMAX", "RELU_0_TO_1", "RELU_N1_TO_1"),
    **_of(_DEEP, "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"),
    **_of((*_WORDS, "int32"), "DIV"),
    **_of((*_COMPUTED, "int32", "bool"), "ARG_MAX", "ARG_MIN"),
    **_of((*_WORDS, "int32", "bool"), "UNPACK"),
    **_of(("uint8", "float32", "int32", "int64"), "SUM"),
    **_of(("int8", "float32"), "ELU", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    **_of(("int8", "float32", "int16"), "BATCH_MATMUL", "EXP", "LOG", "RSQRT", "SQRT"),
    **_of(("int8", "float32", "int16", "int32"), "ABS", "FLOOR_DIV"),
    **_of(("int8", "float32", "int16", "int32", "int64"), "FLOOR_MOD", "NEG", "REDUCE_PROD"),
    **_of(("int8", "float32", "int32"), "SQUARED_DIFFERENCE"),
    **_of(("int8", "uint8", "int16", "float16"), "DEQUANTIZE"),
    **_of(("float32", "uint8"), "CUSTOM TFLite_Detection_PostProcess"),
    **_of(("float32", "int32"), "ADD_N", "POW", "SIGN"),
    **_of(("float32", "int32", "int64"), "CUMSUM"),
    **_of(
        ("float32",), "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "CEIL", "COS", "FLOOR", "L2_POOL_2D",
        "LOCAL_RESPONSE_NORMALIZATION", "LSTM", "RNN", "ROUND", "SIN", "SQUARE", "UNIDIRECTIONAL_SEQUENCE_RNN",
    ),
    **_of(("bool",), "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "REDUCE_ALL", "REDUCE_ANY"),
}  # fmt: skip
"""By the operator's code: the types of its main operand. `tests/litert/rows.py` compares each with LiteRT."""


def check_types(code: str, call: Call) -> None:
    """Raise GraphError for an element type that LiteRT's kernel does not take."""
    main = call.inputs[_MAIN.get(code, 0)]
    if main is not None and main.dtype not in TYPES[code]:
        raise GraphError(f"LiteRT's {code} takes {', '.join(TYPES[code])}, not {main.dtype}")
    if code in _WEIGHTED and main is not None and call.inputs[1] is not None:
        _check_weights(code, main, call.inputs[1])
    if code == "DEPTHWISE_CONV_2D" and narrow_bias(call.inputs):
        raise GraphError(f"LiteRT's {code} takes an int64 bias beside int16 values, not int32")
    result = call.outputs[0].dtype
    if code == "DEQUANTIZE" and result != "float32":
        raise GraphError(f"LiteRT's {code} gives float32, not {result}")


def _check_weights(code: str, image: TensorType, weights: TensorType) -> None:
    """Raise GraphError for weights that LiteRT's kernel does not take, by their type, scales and zero points."""
    if image.dtype == "int16":
        if any(quantization(weights).zero_points):
            raise GraphError(f"LiteRT's {code} takes int8 weights without zero points beside int16 values")
        return
    if not image.quantized8:
        return
    if weights.dtype != image.dtype:
        raise GraphError(f"LiteRT's {code} takes weights of the image's {image.dtype}, not {weights.dtype}")
    scaling = weights.quantization
    if scaling is None:
        return
    if image.dtype == "uint8" and scaling.axis is not None:
        raise GraphError(f"LiteRT's {code} takes uint8 weights of one scale, not {len(scaling.scales)}")
    is_shifted = image.dtype == "int8" and any(scaling.zero_points)
    if is_shifted and (code != "FULLY_CONNECTED" or scaling.axis is not None):
        raise GraphError(f"LiteRT's {code} takes int8 weights without zero points")
