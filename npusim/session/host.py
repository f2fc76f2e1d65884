"""The host side of a run: the functions of host operators, the kind of inputs, and the limit of BLAS threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from npusim.isa.base.errors import NpusimError, ProgramError

if TYPE_CHECKING:
    from npusim.isa.base.tensor import Array, HostCall, TensorType
    from npusim.isa.instructions.memory import HostFunction
    from npusim.isa.program.program import Program


def kind_of_inputs(inputs: object, timing_only: bool) -> Literal["random", "given", "none"]:
    """Return the kind of data that a run executes: random, given, or none."""
    return "none" if timing_only else "random" if inputs is None else "given"


def one_blas_thread(timing_only: bool) -> AbstractContextManager[object]:
    """Limit BLAS to one thread. More threads would spin between the small products of tiles, which costs more."""
    if timing_only:
        return nullcontext()
    limits: AbstractContextManager[object] = _thread_pools().limit(limits=1, user_api="blas")
    return limits


@cache
def _thread_pools() -> Any:
    """Return the thread pools of the loaded libraries; cached, because finding them takes as long as a small run."""
    import numpy  # noqa: F401 - its library is what counts
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def host_functions(program: Program) -> Mapping[str, HostFunction]:
    """Return the functions of the host's operators, which are their numpy references.

    Raises NpusimError for an operator that is unknown or whose rules the call breaks: program files are not trusted.
    """
    from npusim.kernels.table import operator

    for call in program.host_calls:
        _check_host_call(program, call)
    return {name: _host_function(operator(name)) for name in {call.op for call in program.host_calls}}


def _check_host_call(program: Program, call: HostCall) -> None:
    from npusim.kernels.operator.operator import Call
    from npusim.kernels.table import operator

    entry = operator(call.op)
    inputs = tuple(None if place is None else place.type for place in call.inputs)
    where = f'{program.name}: host call "{call.name}" ({call.op})'
    try:
        parameters = entry.parameters.of(call.parameters)
        broken = entry.broken_rule(Call(parameters, inputs, tuple(place.type for place in call.outputs), {}))
    except NpusimError as error:
        raise ProgramError(f"{where}: parameters: {error}") from None
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise ProgramError(f"{where}: parameters or operands that it cannot have: {error}") from None
    if broken:
        raise ProgramError(f"{where}: breaks a rule: {broken}")


def _host_function(entry: Any) -> HostFunction:
    from numpy import errstate

    from npusim.kernels.operator.operator import Call

    def call(
        parameters: Mapping[str, Any],
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        values: Sequence[Array | None],
    ) -> Sequence[Array]:
        known = {i: value for i, value in enumerate(values) if value is not None}
        use = Call(entry.parameters.of(parameters), tuple(inputs), tuple(outputs), known)
        with errstate(all="ignore"):  # results may be infinite or NaN, as IEEE 754 defines them
            results: Sequence[Array] = entry.compute(use, values)
        return results

    return call


def no_outputs(program: Program) -> str:
    """Return why a program cannot execute data."""
    from npusim.isa.program.program import Blank

    if isinstance(program.constants, Blank):
        return f"{program.constants.why}, so it can be timed, not run"
    return f"unknown operators ({', '.join(program.unknown_operators)}) are timed only, there are no outputs"
