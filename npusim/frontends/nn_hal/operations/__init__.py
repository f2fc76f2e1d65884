"""The operations of NNAPI: one row each, by family; `npusim.frontends.nn_hal.operations.operation_table` lists them.

A row states everything of its operation: signatures (`signature`), rules of parameters, shapes and quantization (many
are in `constraints`), and the operator that computes it (`row`). For example ELU of API level 30, `alpha` a FLOAT16 for
TENSOR_FLOAT16 and a FLOAT32 for TENSOR_FLOAT32:

    Row(
        OperationType.ELU,
        ("input:T alpha:s > output:T",),
        "T: F16@1.3 F32@1.3",
        "elu",
        shapes=(constraints.same_shape("input", "output"),),
    )

The tensors among the arguments are the operands of the operator in their order, and scalars and lists are its
parameters of the same name. Where a parameter has another name, `words` gives the arguments that say it:

    words={"size": ("height", "width"), "mode": Choice("mode", {0: "reflect", 1: "symmetric"})}

What this cannot say is a function `convert`, which adds the node with some parameters given:

    def _pack(c: Conversion) -> Sequence[int]:
        return c.add(axis=c.axis("axis", "inputs", 1))

An optional argument has a `?` behind its kind, and its operand is None if it is omitted. If an operation has more
inputs from a version on, they stand behind a bar: `"input:T state:T? | norm:T? @1.2 > output:T | state_out:T @1.3"`.

A rule is a function with its text as docstring. It returns the name of the argument at fault; what is not known yet
(None) breaks no rule:

    def _memory(call: Call) -> str | None:
        \"\"\"the state has the memory of all filters per batch\"\"\"
        size, memory = call.size("state", 1), call.size("weights_time", 1)
        return None if size is None or memory is None or size % memory == 0 else "state"

When the model is executed, all sizes are known, and also the values of parameters that the model leaves to the request.
Then the same rules are checked again.

Operations whose outputs have as many rows as the data gives are `counted`: their operator writes as many rows as there
can be and has one output more, an int32 of shape [] or [1], the number of rows.
"""
