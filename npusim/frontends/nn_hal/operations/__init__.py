"""The operations of NNAPI: one row each, by family; `npusim.frontends.nn_hal.operations.table` lists them.

A row says everything of its operation: signatures (`signature`), rules of parameters, shapes and quantization (many are
in `constraints`), and how a call becomes nodes (`conversion`). For example ELU of API level 30, `alpha` a FLOAT16 for
TENSOR_FLOAT16 and a FLOAT32 for TENSOR_FLOAT32:

    def _elu(c: Conversion) -> Sequence[int]:
        return c.node("elu", [c.tensor("input")], alpha=c.real("alpha"))

    Row(
        OperationType.ELU,
        ("input:T alpha:s > output:T",),
        "T: F16@1.3 F32@1.3",
        shapes=(constraints.same_shape("input", "output"),),
        convert=_elu,
        operators=("elu",),
    )

`convert` returns the tensors of the outputs in their order. An optional argument has a `?` behind its kind, and
`c.tensor` gives None where it is omitted. Where an operation has other numbers of inputs from a version on, they stand
behind a bar: `"input:T state:T? | norm:T? @1.2 > output:T | state_out:T @1.3"`. A node with several results names their
types: `c.node("op", inputs, c.result("first"), c.result("second"))`. A rule is a function with its text as docstring:

    def _memory(call: Call) -> str | None:
        \"\"\"the state has the memory of all filters per batch\"\"\"
        size, memory = call.size("state", 1), call.size("weights_time", 1)
        return None if size is None or memory is None or size % memory == 0 else "state"

It returns the name of the argument at fault; what is not known yet (None) breaks no rule. When the model is executed,
all sizes are known, and the values of parameters that the model leaves to the request: then the same rules are asked
again.

Operations whose outputs have as many rows as the data gives are `counted`: their operator writes as many rows as there
can be and has one output more, an int32 of shape [] or [1], the number of rows; `convert` returns its tensor last.
"""
