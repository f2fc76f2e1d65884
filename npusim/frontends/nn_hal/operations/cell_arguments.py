"""The arguments of a long short-term memory cell: their names, sizes, and which of them are there together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.row import Rule

GATES = ("input", "forget", "cell", "output")
PEEPHOLES = ("input", "forget", "output")


class CellArguments(NamedTuple):
    """The names of the arguments of a cell; `prefix` tells the two of a bidirectional layer apart."""

    prefix: str = ""

    def input_weights(self, gate: str) -> str:
        return f"{self.prefix}input_to_{gate}"

    def recurrent_weights(self, gate: str) -> str:
        return f"{self.prefix}recurrent_to_{gate}"

    def peephole(self, gate: str) -> str:
        return f"{self.prefix}cell_to_{gate}"

    def bias(self, gate: str) -> str:
        return f"{self.prefix}{gate}_bias"

    def norm(self, gate: str) -> str:
        return f"{self.prefix}{gate}_norm"

    def auxiliary(self, gate: str) -> str:
        return f"{self.prefix}auxiliary_to_{gate}"

    @property
    def projection(self) -> tuple[str, str]:
        return f"{self.prefix}projection", f"{self.prefix}projection_bias"

    @property
    def states(self) -> tuple[str, str]:
        return f"{self.prefix}output_state", f"{self.prefix}cell_state"

    @property
    def matrices(self) -> tuple[str, ...]:
        """The weights of all gates."""
        return (*map(self.input_weights, GATES), *map(self.recurrent_weights, GATES))

    @property
    def weights(self) -> tuple[str, ...]:
        """All but input, states and layer normalization, in the order of every operation."""
        return (
            *self.matrices,
            *map(self.peephole, PEEPHOLES),
            *map(self.bias, GATES),
            *self.projection,
        )

    @property
    def norms(self) -> tuple[str, ...]:
        return tuple(map(self.norm, GATES))

    @property
    def auxiliaries(self) -> tuple[str, ...]:
        return tuple(map(self.auxiliary, GATES))

    @property
    def optional(self) -> tuple[str, ...]:
        """Those of `weights` that may be omitted."""
        first = (self.input_weights("input"), self.recurrent_weights("input"), self.bias("input"))
        return (*first, *map(self.peephole, PEEPHOLES), *self.projection)

    def sizes(self) -> dict[str, str]:
        """Of all arguments but input, auxiliary input and its weights."""
        batch, p = "batch", self.prefix
        units, outputs, inputs = f"{p}units", f"{p}outputs", f"{p}inputs"
        said = {self.states[0]: f"{batch} {outputs}", self.states[1]: f"{batch} {units}"}
        said |= {
            self.input_weights(gate): f"{units} {inputs}" for gate in ("forget", "cell", "output", "input")
        }
        said |= {self.recurrent_weights(gate): f"{units} {outputs}" for gate in GATES}
        said |= dict.fromkeys((*map(self.peephole, PEEPHOLES), *map(self.bias, GATES), *self.norms), units)
        return said | {self.projection[0]: f"{outputs} {units}", self.projection[1]: outputs}


ONE, FORWARD, BACKWARD = CellArguments(), CellArguments("fw_"), CellArguments("bw_")


def listed(names: Iterable[str], kinds: Mapping[str, str], optional: Sequence[str] = ()) -> str:
    """Arguments as forms write them; T is the kind of those that `kinds` does not have."""
    return " ".join(f"{name}:{kinds.get(name, 'T')}{'?' if name in optional else ''}" for name in names)


# Which arguments are there together


def there(call: Call, names: Iterable[str]) -> set[bool]:
    """Whether arguments are there: one answer, or both; those that only the request decides give none."""
    found = [argument for name in names for argument in call.all(name)]
    return {not argument.omitted for argument in found if argument.omitted or not argument.undecided}


def first_omitted(call: Call, names: Iterable[str]) -> str | None:
    """The first of the arguments that is omitted, if one is."""
    return next((name for name in names for one in call.all(name) if one.omitted), None)


def together(names: CellArguments) -> tuple[Rule, ...]:
    """The rules of a cell's optional arguments."""

    def gate(call: Call) -> str | None:
        group = (names.input_weights("input"), names.recurrent_weights("input"), names.bias("input"))
        return first_omitted(call, group) if len(there(call, group)) > 1 else None

    def peepholes(call: Call) -> str | None:
        group = (names.peephole("forget"), names.peephole("output"))
        if len(there(call, group)) > 1:
            return first_omitted(call, group)
        given, coupled = there(call, group), there(call, [names.input_weights("input")]) == {False}
        first = there(call, [names.peephole("input")])
        wanted = given if not coupled else {False}
        return names.peephole("input") if first and wanted and first != wanted else None

    def projection(call: Call) -> str | None:
        weights, bias = names.projection
        return bias if there(call, [bias]) == {True} and there(call, [weights]) == {False} else None

    def norms(call: Call) -> str | None:
        group = names.norms[1:]
        if len(there(call, group)) > 1:
            return first_omitted(call, group)
        first, given = there(call, names.norms[:1]), there(call, group)
        coupled = there(call, [names.input_weights("input")]) == {False}
        wanted = {False} if coupled else given
        return names.norms[0] if first and wanted and first != wanted else None

    gate.__doc__ = (
        "input weights, recurrent weights and bias of the input gate all have values or none of them has"
    )
    peepholes.__doc__ = (
        "all cell_to weights have values or none has; cell_to_input only beside input gate weights"
    )
    projection.__doc__ = "a projection bias has a value only beside projection weights"
    norms.__doc__ = "all norm weights have values or none has; input_norm only beside input gate weights"
    return gate, peepholes, projection, norms
