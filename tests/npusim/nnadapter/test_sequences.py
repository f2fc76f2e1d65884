"""Random sequences of calls: the C interface raises nothing, the objects only NNAdapterErrors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim import nnadapter as nna
from npusim.nnadapter import c
from npusim.nnadapter.c.c_functions import ROWS
from tests.examples import examples

RESULTS = {int(code) for code in nna.ResultCode}


def access(memory: Any, type_: Any) -> Any:
    """The array itself."""
    type_.dimensions = list(memory.shape)
    return memory


PLAIN: list[Any] = [
    *(None, 0, 1, 2, -1, 65, 4711, 1 << 40, 1.5, True, "", "npusim", "npusim_host", "fake_device", "nobody"),
    *("A=1", "NPUSIM_MACS=256;", "A", b"", bytes(24), [], [None], {}, access, lambda: 1, object()),
    {"precision": "FLOAT32", "dimensions": [2, 3]},
    {"precision": "FLOAT32", "dimensions": [-65535, 3], "dynamic": [[2, 3], [4, 3]]},
    {"precision": "QUANT_INT8_SYMM_PER_LAYER", "dimensions": [2, 3], "scale": 0.5},
    {"precision": 99, "dimensions": "no"},
    np.zeros((2, 3), np.float32),
    np.zeros((4, 3), np.float32),
    np.zeros(6, np.int8),
]
"""Arguments that are no handles: some fit somewhere, most do not."""

RIGHT: dict[str, list[Any]] = {
    "NNAdapterDevice_acquire": ["npusim", "&"],
    "NNAdapterContext_create": [["Device"], 1, "", None, "&"],
    "NNAdapterModel_create": ["&"],
    "NNAdapterModel_addOperand": ["Model", PLAIN[26], "&"],
    "NNAdapterModel_setOperandValue": ["Operand", bytes(24), 24, True],
    "NNAdapterModel_addOperation": ["Model", 65, 1, ["Operand"], 1, ["Operand"], "&"],
    "NNAdapterModel_identifyInputsAndOutputs": ["Model", 1, ["Operand"], 1, ["Operand"]],
    "NNAdapterModel_finish": ["Model"],
    "NNAdapterModel_getSupportedOperations": ["Model", "Context", "&"],
    "NNAdapterCompilation_create": ["Model", None, None, 0, None, "Context", "&"],
    "NNAdapterCompilation_finish": ["Compilation"],
    "NNAdapterExecution_create": ["Compilation", "&"],
    "NNAdapterExecution_setInput": ["Execution", 0, PLAIN[30], access],
    "NNAdapterExecution_setOutput": ["Execution", 0, PLAIN[30], access],
    "NNAdapterExecution_compute": ["Execution"],
}
"""Arguments that may be right: handles by their type, "&" a place for one."""


class Caller:
    """Who calls: it keeps every handle that it gets, and sometimes takes one for another."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.handles: list[Any] = []

    def argument(self, word: Any) -> Any:
        """What a word of `RIGHT` stands for, or anything."""
        if isinstance(word, str) and word == "&":
            return c.Ref()
        if isinstance(word, list):
            return [self.argument(one) for one in word]
        if isinstance(word, str) and word[:1].isupper():
            fitting = [handle for handle in self.handles if type(handle).__name__ == word]
            return self.data.draw(st.sampled_from(fitting)) if fitting else None
        return word

    def anything(self) -> Any:
        """A handle, a place, or something else."""
        kind = self.data.draw(st.integers(0, 2))
        if kind == 0 and self.handles:
            return self.data.draw(st.sampled_from(self.handles))
        return c.Ref() if kind == 1 else self.data.draw(st.sampled_from(PLAIN))

    def arguments(self, name: str) -> list[Any]:
        """Arguments for a function: mostly those that may be right, with one that is not now and then."""
        row = next(row for row in ROWS if row.name == name)
        if name in RIGHT:
            made = [self.argument(word) for word in RIGHT[name]]
            if self.data.draw(st.integers(0, 3)) == 0:
                made[self.data.draw(st.integers(0, len(made) - 1))] = self.anything()
            return made
        return [
            self.anything() for _ in range(len(row.slots) + self.data.draw(st.sampled_from([0, 0, 0, 1])))
        ]

    def call(self, name: str) -> None:
        """One call, with what it gives kept."""
        arguments = self.arguments(name)
        row = next(row for row in ROWS if row.name == name)
        code = getattr(c, name)(*arguments)
        assert code is None if row.void else code in RESULTS
        if code:
            assert "npusim itself fails" not in c.last_error(), c.last_error()
            assert c.last_error().startswith(f"{name}: ")
            assert "\n" not in c.last_error()
        self.handles += [one.value for one in arguments if isinstance(one, c.Ref) and one.value is not None]


@pytest.mark.slow
@examples(150)
@given(st.data())
def test_the_c_interface_raises_nothing(data: st.DataObject) -> None:
    caller = Caller(data)
    names = [row.name for row in ROWS]
    order = list(RIGHT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(data.draw(st.integers(1, 40))):
            # Now in the order that leads somewhere, now anywhere.
            name = data.draw(st.sampled_from([*names, *order]))
            caller.call(name)


@pytest.mark.slow
@examples(100)
@given(st.data())
def test_sequences_that_mostly_lead_somewhere(data: st.DataObject) -> None:
    caller = Caller(data)
    steps = [
        *("NNAdapterDevice_acquire", "NNAdapterContext_create", "NNAdapterModel_create"),
        *("NNAdapterModel_addOperand", "NNAdapterModel_addOperand", "NNAdapterModel_addOperation"),
        *("NNAdapterModel_identifyInputsAndOutputs", "NNAdapterModel_finish", "NNAdapterCompilation_create"),
        *("NNAdapterCompilation_finish", "NNAdapterExecution_create", "NNAdapterExecution_setInput"),
        *("NNAdapterExecution_setOutput", "NNAdapterExecution_compute"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in steps:
            if data.draw(st.integers(0, 5)) == 0:
                caller.call(data.draw(st.sampled_from([row.name for row in ROWS])))
            caller.call(step)


OBJECTS: dict[str, list[str]] = {
    "Device": ["release", "name", "vendor", "type", "version", "opened"],
    "Context": ["destroy", "devices", "mode", "cores", "supported_operations"],
    "Model": [
        *("add_operand", "add_constant", "set_operand_value", "add_operation", "identify", "finish"),
        *("supported_operations", "relu", "add", "network"),
    ],
    "Compilation": ["finish", "pieces", "inputs", "outputs", "query_inputs_and_outputs", "destroy", "gears"],
    "Execution": ["set_input", "set_output", "compute", "destroy"],
}
"""What can be done with the objects."""


@pytest.mark.slow
@examples(150)
@given(st.data())
def test_the_objects_raise_nothing_but_their_errors(data: st.DataObject) -> None:
    objects: list[Any] = []
    faults: list[nna.NNAdapterError] = []
    things = [
        *PLAIN,
        nna.OperandType(nna.FLOAT32, [2, 3]),
        nna.OperandType(nna.FLOAT32, [-1, 3], dynamic=[[2, 3]]),
        nna.RELU,
    ]

    def thing() -> Any:
        if objects and data.draw(st.booleans()):
            one = data.draw(st.sampled_from(objects))
            return [one] if data.draw(st.integers(0, 3)) == 0 else one
        return data.draw(st.sampled_from(things))

    def step() -> Any:
        if not objects or data.draw(st.integers(0, 3)) == 0:
            kind = data.draw(
                st.sampled_from([nna.Device, nna.Context, nna.Model, nna.Compilation, nna.Execution])
            )
            count = {"Device": 1, "Context": 2, "Model": 0, "Compilation": 2, "Execution": 1}[kind.__name__]
            return kind(*(thing() for _ in range(count)))
        one = data.draw(st.sampled_from(objects))
        name = data.draw(st.sampled_from(OBJECTS.get(type(one).__name__, ["name"])))
        member = getattr(one, name)
        counts = {
            "set_input": 2,
            "set_output": 2,
            "add_operation": 2,
            "identify": 2,
            "set_operand_value": 2,
            "add": 2,
        }
        none = ("finish", "compute", "destroy", "release", "query_inputs_and_outputs", "network")
        return (
            member(*(thing() for _ in range(0 if name in none else counts.get(name, 1))))
            if callable(member)
            else member
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(data.draw(st.integers(1, 30))):
            try:
                made = step()
            except nna.NNAdapterError as fault:
                faults.append(fault)
                continue
            if type(made).__name__ in (*OBJECTS, "Operand"):
                objects.append(made)
    for fault in faults:
        assert fault.code in RESULTS - {0}
        assert str(fault).strip()
        assert "\n" not in str(fault)
