"""Wrong use of every function of the C interface: the code of the rule that is broken, and a sentence.

A row is the rule, the function with its arguments, the code and what the sentence says. Arguments are words of `World`,
or values. Void functions have None for their code: they do nothing, and the sentence says why.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Literal

import numpy as np
import pytest

from npusim.nnadapter import c
from npusim.nnadapter.c.c_functions import ROWS as FUNCTIONS

NO_MEMORY, DIMENSIONS, PARAMETER, NO_DEVICE, INTERNAL, UNSUPPORTED = range(1, 7)

FLOAT = {"precision": "FLOAT32", "dimensions": [2, 3]}
CHANNELS = {"precision": "QUANT_INT8_SYMM_PER_CHANNEL", "dimensions": [4, 2]}


def typed(precision: str, **rest: Any) -> dict[str, Any]:
    """A type of [2, 3]."""
    return FLOAT | {"precision": precision} | rest


class World:
    """One of each handle, and of each that is destroyed; words of rows name its members."""

    def __init__(self) -> None:
        self.ref = c.Ref()
        self.null = None
        self.device = self._made("NNAdapterDevice_acquire", "npusim")
        self.context = self._made("NNAdapterContext_create", [self.device], 1, "", None)
        self.no_device = self._made("NNAdapterDevice_acquire", "npusim")
        c.NNAdapterDevice_release(self.no_device)
        self.no_context = self._made("NNAdapterContext_create", [self.device], 1, "", None)
        c.NNAdapterContext_destroy(self.no_context)
        self.model, self.x, self.y = self._model()
        self.built, self.bx, self.by = self._model()
        self._operation(self.built, self.bx, self.by)
        self.ready, self.rx, self.ry = self._finished()
        self.no_model, self.gone, _ = self._finished()
        c.NNAdapterModel_destroy(self.no_model)
        self.constant = self._operand(self.model)
        assert c.NNAdapterModel_setOperandValue(self.constant, bytes(24), 24, True) == 0
        self.unidentified = self._made("NNAdapterModel_create")
        assert c.NNAdapterModel_finish(self.unidentified) == 0
        self.of_unidentified = self._compilation(self.unidentified)
        self.unfinished = self._compilation(self.ready)
        self.empty = self._compilation(None)
        self.compilation = self._compilation(self.ready)
        assert c.NNAdapterCompilation_finish(self.compilation) == 0
        self.no_compilation = self._compilation(self.ready)
        c.NNAdapterCompilation_destroy(self.no_compilation)
        doomed = self._finished()[0]
        self.of_no_model = self._compilation(doomed)
        c.NNAdapterModel_destroy(doomed)
        self.execution = self._made("NNAdapterExecution_create", self.compilation)
        self.no_execution = self._made("NNAdapterExecution_create", self.compilation)
        c.NNAdapterExecution_destroy(self.no_execution)
        self.without_output = self._bound(np.zeros((2, 3), np.float32))
        self.other_rank = self._bound(np.zeros(6, np.float32), output=True)
        self.other_size = self._bound(np.zeros((2, 4), np.float32), output=True)
        self.short = self._bound(5, output=True)
        self.of_codes = self._bound(np.zeros((2, 3), np.int8), output=True)
        self.of_nothing = self._bound([], output=True)
        self.short_output = self._bound(np.zeros((2, 3), np.float32))
        assert c.NNAdapterExecution_setOutput(self.short_output, 0, np.zeros((2, 2), np.float32), access) == 0
        self.failing = self._bound("fails", output=True)
        self.array = np.zeros((2, 3), np.float32)
        self.list = [self.x]

    def _made(self, name: str, *arguments: Any) -> Any:
        place = c.Ref()
        assert getattr(c, name)(*arguments, place) == 0, c.last_error()
        return place.value

    def _operand(self, model: Any, type_: Any = None) -> Any:
        return self._made("NNAdapterModel_addOperand", model, type_ or FLOAT)

    def _model(self) -> tuple[Any, Any, Any]:
        model = self._made("NNAdapterModel_create")
        return model, self._operand(model), self._operand(model)

    def _operation(self, model: Any, x: Any, y: Any) -> None:
        self._made("NNAdapterModel_addOperation", model, c.NNADAPTER_RELU, 1, [x], 1, [y])

    def _finished(self) -> tuple[Any, Any, Any]:
        model, x, y = self._model()
        self._operation(model, x, y)
        assert c.NNAdapterModel_identifyInputsAndOutputs(model, 1, [x], 1, [y]) == 0
        assert c.NNAdapterModel_finish(model) == 0
        return model, x, y

    def _compilation(self, model: Any) -> Any:
        return self._made("NNAdapterCompilation_create", model, None, None, 0, None, self.context)

    def _bound(self, memory: Any, output: bool = False) -> Any:
        execution = self._made("NNAdapterExecution_create", self.compilation)
        assert c.NNAdapterExecution_setInput(execution, 0, memory, access) == 0
        if output:
            assert c.NNAdapterExecution_setOutput(execution, 0, np.zeros((2, 3), np.float32), access) == 0
        return execution


def access(memory: Any, type_: Any) -> Any:
    """The buffer of an array; one that is too short for a number, and a fault for a text."""
    if isinstance(memory, str):
        raise RuntimeError(memory)
    if isinstance(memory, int):
        return bytearray(20)
    if isinstance(memory, list):
        return None
    type_.dimensions = list(memory.shape)
    return memory


@pytest.fixture(scope="module")
def world() -> World:
    return World()


# fmt: off
ROWS: list[tuple[str, str, list[Any], int | None, str]] = [
    ("2.1", "NNAdapter_getVersion", ["null"], PARAMETER, "version: is null"),
    ("2.1", "NNAdapter_getVersion", [], PARAMETER, "0 arguments, must be 1: version"),
    ("2.1", "NNAdapter_getVersion", [7], PARAMETER, "version: is 7, must be a place for the result"),
    ("2.2", "NNAdapter_getDeviceCount", ["null"], PARAMETER, "num_devices: is null"),
    ("2.3", "NNAdapterDevice_acquire", ["null", "ref"], PARAMETER, "name: is null"),
    ("2.3", "NNAdapterDevice_acquire", [4, "ref"], PARAMETER, "name: is 4, must be a text"),
    ("2.3", "NNAdapterDevice_acquire", ["'npusim'", "null"], PARAMETER, "device: is null"),
    ("2.3", "NNAdapterDevice_acquire", ["''", "ref"], PARAMETER, "device: is '', must be a name"),
    ("2.3", "NNAdapterDevice_acquire", ["'npusim2'", "ref"], NO_DEVICE,
     "'npusim2': does not exist, did you mean npusim"),
    ("2.4", "NNAdapterDevice_release", ["null"], None, "device: is null"),
    ("2.4", "NNAdapterDevice_release", ["no_device"], None, "device: is destroyed"),
    ("2.5", "NNAdapterDevice_getName", ["null", "ref"], PARAMETER, "device: is null"),
    ("2.5", "NNAdapterDevice_getName", ["device", "null"], PARAMETER, "name: is null"),
    ("2.5", "NNAdapterDevice_getName", ["no_device", "ref"], PARAMETER, "device: is destroyed"),
    ("2.5", "NNAdapterDevice_getName", ["context", "ref"], PARAMETER, "device: is Context, must be a device"),
    ("2.6", "NNAdapterDevice_getVendor", ["null", "ref"], PARAMETER, "device: is null"),
    ("2.6", "NNAdapterDevice_getVendor", ["device", "null"], PARAMETER, "vendor: is null"),
    ("2.7", "NNAdapterDevice_getType", ["null", "ref"], PARAMETER, "device: is null"),
    ("2.7", "NNAdapterDevice_getType", ["device", "null"], PARAMETER, "type: is null"),
    ("2.8", "NNAdapterDevice_getVersion", ["null", "ref"], PARAMETER, "device: is null"),
    ("2.8", "NNAdapterDevice_getVersion", ["device", "null"], PARAMETER, "version: is null"),
    ("2.9", "NNAdapterContext_create", ["null", 1, "''", "null", "ref"], PARAMETER, "devices: is null"),
    ("2.9", "NNAdapterContext_create", [["device"], 0, "''", "null", "ref"], PARAMETER, "devices: are none"),
    ("2.9", "NNAdapterContext_create", [["device"], -1, "''", "null", "ref"], PARAMETER, "num_devices: is -1"),
    ("2.9", "NNAdapterContext_create", [["device"], 2, "''", "null", "ref"], PARAMETER,
     "devices: is 1 elements, 2 are"),
    ("2.9", "NNAdapterContext_create", [["null"], 1, "''", "null", "ref"], PARAMETER,
     "devices: is null, must be a dev"),
    ("2.9", "NNAdapterContext_create", [["no_device"], 1, "''", "null", "ref"], PARAMETER, "devices: is destroyed"),
    ("2.9", "NNAdapterContext_create", [["device", "device"], 2, "''", "null", "ref"], PARAMETER, "is there already"),
    ("2.9", "NNAdapterContext_create", [["device"], 1, "''", 5, "ref"], PARAMETER,
     "callback: is 5, must be a function"),
    ("2.9", "NNAdapterContext_create", [["device"], 1, 5, "null", "ref"], PARAMETER,
     "properties: is 5, must be a text"),
    ("2.9", "NNAdapterContext_create", [["device"], 1, "''", "null", "null"], PARAMETER, "context: is null"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'A'", "null", "ref"], PARAMETER,
     "section 'A' must be KEY=VALUE"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'A='", "null", "ref"], PARAMETER, "section 'A=' must be"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'=B'", "null", "ref"], PARAMETER, "section '=B' must be"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'A=B=C'", "null", "ref"], PARAMETER, "section 'A=B=C' must be"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'A=B;;'", "null", "ref"], PARAMETER, "section '' must be"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'NPUSIM_MACS=many'", "null", "ref"], PARAMETER,
     "properties: NPUSIM_MACS is 'many'"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'NPUSIM_MACS=17'", "null", "ref"], PARAMETER,
     "17 multipliers; must be a multiple of the 16 rows"),
    ("5.1", "NNAdapterContext_create", [["device"], 1, "'NPUSIM_PARTITION=best'", "null", "ref"], PARAMETER,
     "may be order, cost, single"),
    ("2.10", "NNAdapterContext_destroy", ["null"], None, "context: is null"),
    ("2.10", "NNAdapterContext_destroy", ["no_context"], None, "context: is destroyed"),
    ("2.11", "NNAdapterModel_create", ["null"], PARAMETER, "model: is null"),
    ("2.12", "NNAdapterModel_destroy", ["null"], None, "model: is null"),
    ("2.12", "NNAdapterModel_destroy", ["no_model"], None, "model: is destroyed"),
    ("2.13", "NNAdapterModel_finish", ["null"], PARAMETER, "model: is null"),
    ("2.13", "NNAdapterModel_finish", ["ready"], PARAMETER, "is finished, nothing can be"),
    ("2.13", "NNAdapterModel_finish", ["no_model"], PARAMETER, "model: is destroyed"),
    ("2.14", "NNAdapterModel_addOperand", ["null", FLOAT, "ref"], PARAMETER, "model: is null"),
    ("2.14", "NNAdapterModel_addOperand", ["model", "null", "ref"], PARAMETER, "type: is null"),
    ("2.14", "NNAdapterModel_addOperand", ["model", FLOAT, "null"], PARAMETER, "operand: is null"),
    ("2.14", "NNAdapterModel_addOperand", ["ready", FLOAT, "ref"], PARAMETER, "is finished"),
    ("2.14", "NNAdapterModel_addOperand", ["model", 5, "ref"], PARAMETER,
     "type: is 5, must be an NNAdapterOperandType"),
    ("2.14", "NNAdapterModel_addOperand", ["model", {"size": 1}, "ref"], PARAMETER, "type: has no 'size'"),
    ("2.14", "NNAdapterModel_addOperand", ["model", {"dimensions": [1]}, "ref"], PARAMETER, "precision is missing"),
    ("3.2", "NNAdapterModel_addOperand", ["model", typed("FLOAT8"), "ref"], PARAMETER, "is 'FLOAT8', must be one of"),
    ("3.3", "NNAdapterModel_addOperand", ["model", typed("QUANT_INT8_SYMM_PER_LAYER"), "ref"], PARAMETER,
     "scale: is missing"),
    ("3.3", "NNAdapterModel_addOperand", ["model", typed("QUANT_INT8_SYMM_PER_LAYER", scale=0), "ref"], PARAMETER,
     "must be above 0"),
    ("3.3", "NNAdapterModel_addOperand", ["model", typed("QUANT_INT8_SYMM_PER_LAYER", scale=-1.0), "ref"], PARAMETER,
     "must be above 0"),
    ("3.3", "NNAdapterModel_addOperand", ["model", CHANNELS | {"scales": [1, 1], "channel_dim": 0}, "ref"], PARAMETER,
     "has 2 scales, dimension 0 has size 4"),
    ("3.3", "NNAdapterModel_addOperand", ["model", CHANNELS | {"scales": [1, 1], "channel_dim": 2}, "ref"], PARAMETER,
     "channel_dim: is 2, must be a dimension"),
    ("3.7", "NNAdapterModel_addOperand", ["model", FLOAT | {"dimensions": [1] * 9}, "ref"], PARAMETER,
     "has 9 sizes, may have 8"),
    ("3.7", "NNAdapterModel_addOperand", ["model", FLOAT | {"dimensions": [-2, 3]}, "ref"], PARAMETER, "has size -2"),
    ("3.7", "NNAdapterModel_addOperand", ["model", FLOAT | {"dynamic": [[2, 3]]}, "ref"], PARAMETER,
     "every size of .2, 3. is known"),
    ("2.15", "NNAdapterModel_setOperandValue", ["null", bytes(24), 24, True], PARAMETER, "operand: is null"),
    ("2.15", "NNAdapterModel_setOperandValue", ["x", "null", 24, True], PARAMETER, "buffer: is null"),
    ("2.15", "NNAdapterModel_setOperandValue", ["x", bytes(24), 0, True], PARAMETER, "length is 0 bytes"),
    ("2.15", "NNAdapterModel_setOperandValue", ["x", bytes(20), 20, True], PARAMETER, "length is 20 bytes.*has 24"),
    ("2.15", "NNAdapterModel_setOperandValue", ["x", bytes(20), 24, True], PARAMETER, "length is 24.*buffer has 20"),
    ("2.15", "NNAdapterModel_setOperandValue", ["x", 5, 24, True], PARAMETER, "is int, must be an array or bytes"),
    ("2.15", "NNAdapterModel_setOperandValue", ["x", bytes(24), 24, "null"], PARAMETER, "copy: is null"),
    ("2.15", "NNAdapterModel_setOperandValue", ["x", bytes(24), 24, []], PARAMETER, "must be true or false"),
    ("2.15", "NNAdapterModel_setOperandValue", ["by", bytes(24), 24, True], PARAMETER, "an operation writes it"),
    ("2.15", "NNAdapterModel_setOperandValue", ["rx", bytes(24), 24, True], PARAMETER, "is finished"),
    ("2.15", "NNAdapterModel_setOperandValue", ["gone", bytes(24), 24, True], PARAMETER, "its model is destroyed"),
    ("2.16", "NNAdapterModel_getOperandType", ["null", "ref"], PARAMETER, "operand: is null"),
    ("2.16", "NNAdapterModel_getOperandType", ["x", "null"], PARAMETER, "type: is null"),
    ("2.17", "NNAdapterModel_addOperation", ["null", 65, 1, ["x"], 1, ["y"], "ref"], PARAMETER, "model: is null"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 1, ["x"], 0, "null", "ref"], PARAMETER, "has no outputs"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 0, "null", 1, ["y"], "ref"], PARAMETER, "has 0 inputs, must"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 2, ["x", "x"], 1, ["y"], "ref"], PARAMETER, "has 2 inputs"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 2, ["x"], 1, ["y"], "ref"], PARAMETER, "2 are said"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 1, "null", 1, ["y"], "ref"], PARAMETER,
     "is null, 1 are said"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 1, ["null"], 1, ["y"], "ref"], PARAMETER, "input is omitted"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 1, ["rx"], 1, ["y"], "ref"], PARAMETER, "another model"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 1, ["x"], 1, ["constant"], "ref"], PARAMETER, "is given to"),
    ("2.17", "NNAdapterModel_addOperation", ["built", 65, 1, ["bx"], 1, ["by"], "ref"], PARAMETER, "writes too"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 65, 1, ["x"], 1, ["y"], "null"], PARAMETER, "operation: is null"),
    ("2.17", "NNAdapterModel_addOperation", ["model", 4711, 1, ["x"], 1, ["y"], "ref"], PARAMETER, "type: is 4711"),
    ("2.17", "NNAdapterModel_addOperation", ["model", "'RELU7'", 1, ["x"], 1, ["y"], "ref"], PARAMETER, "is 'RELU7'"),
    ("2.17", "NNAdapterModel_addOperation", ["ready", 65, 1, ["rx"], 1, ["ry"], "ref"], PARAMETER, "is finished"),
    ("2.18", "NNAdapterModel_identifyInputsAndOutputs", ["null", 1, ["x"], 1, ["y"]], PARAMETER, "model: is null"),
    ("2.18", "NNAdapterModel_identifyInputsAndOutputs", ["model", 1, ["x"], 0, "null"], PARAMETER, "outputs: are none"),
    ("2.18", "NNAdapterModel_identifyInputsAndOutputs", ["model", 1, "null", 1, ["y"]], PARAMETER, "is null, 1 are"),
    ("2.18", "NNAdapterModel_identifyInputsAndOutputs", ["model", 1, ["x"], 1, ["null"]], PARAMETER,
     "is null, must be"),
    ("2.18", "NNAdapterModel_identifyInputsAndOutputs", ["model", 1, ["constant"], 1, ["y"]], PARAMETER, "a constant"),
    ("2.18", "NNAdapterModel_identifyInputsAndOutputs", ["model", 2, ["x", "x"], 1, ["y"]], PARAMETER, "2 times"),
    ("2.18", "NNAdapterModel_identifyInputsAndOutputs", ["ready", 1, ["rx"], 1, ["ry"]], PARAMETER, "is finished"),
    ("2.19", "NNAdapterModel_getSupportedOperations", ["null", "context", "ref"], PARAMETER, "model: is null"),
    ("2.19", "NNAdapterModel_getSupportedOperations", ["ready", "null", "ref"], PARAMETER, "context: is null"),
    ("2.19", "NNAdapterModel_getSupportedOperations", ["ready", "context", "null"], PARAMETER, "operations: is null"),
    ("2.19", "NNAdapterModel_getSupportedOperations", ["unidentified", "context", "ref"], PARAMETER,
     "inputs and outputs are not identified"),
    ("2.22", "NNAdapterCompilation_finish", ["of_unidentified"], PARAMETER, "inputs and outputs are not identified"),
    ("2.19", "NNAdapterModel_getSupportedOperations", ["built", "context", "ref"], PARAMETER, "is not finished"),
    ("2.19", "NNAdapterModel_getSupportedOperations", ["ready", "no_context", "ref"], PARAMETER,
     "context: is destroyed"),
    ("2.20", "NNAdapterCompilation_create", ["ready", "null", "null", 0, "null", "null", "ref"], PARAMETER,
     "context: is null"),
    ("2.20", "NNAdapterCompilation_create", ["ready", "null", "null", 0, "null", "context", "null"], PARAMETER,
     "compilation: is null"),
    ("2.20", "NNAdapterCompilation_create", ["ready", "'t'", bytes(8), 0, "null", "context", "ref"], PARAMETER,
     "both or not at all"),
    ("2.20", "NNAdapterCompilation_create", ["ready", "'t'", "null", 8, "null", "context", "ref"], PARAMETER,
     "both or not at all"),
    ("2.20", "NNAdapterCompilation_create", ["built", "null", "null", 0, "null", "context", "ref"], PARAMETER,
     "is not finished"),
    ("2.20", "NNAdapterCompilation_create", ["ready", "null", "null", 0, "null", "no_context", "ref"], PARAMETER,
     "context: is destroyed"),
    ("2.20", "NNAdapterCompilation_create", ["no_model", "null", "null", 0, "null", "context", "ref"], PARAMETER,
     "model: is destroyed"),
    ("2.21", "NNAdapterCompilation_destroy", ["null"], None, "compilation: is null"),
    ("2.21", "NNAdapterCompilation_destroy", ["no_compilation"], None, "compilation: is destroyed"),
    ("2.22", "NNAdapterCompilation_finish", ["null"], PARAMETER, "compilation: is null"),
    ("2.22", "NNAdapterCompilation_finish", ["empty"], PARAMETER, "neither a model nor a cache"),
    ("2.22", "NNAdapterCompilation_finish", ["of_no_model"], PARAMETER, "model: is destroyed"),
    ("2.22", "NNAdapterCompilation_finish", ["compilation"], PARAMETER, "is finished already"),
    ("2.22", "NNAdapterCompilation_finish", ["no_compilation"], PARAMETER, "compilation: is destroyed"),
    ("2.23", "NNAdapterCompilation_queryInputsAndOutputs", ["null", "ref", "null", "ref", "null"], PARAMETER,
     "compilation: is null"),
    ("2.23", "NNAdapterCompilation_queryInputsAndOutputs", ["compilation", "null", "null", "ref", "null"], PARAMETER,
     "input_count: is null"),
    ("2.23", "NNAdapterCompilation_queryInputsAndOutputs", ["compilation", "ref", "null", "null", "null"], PARAMETER,
     "output_count: is null"),
    ("2.23", "NNAdapterCompilation_queryInputsAndOutputs", ["compilation", "ref", 5, "ref", "null"], PARAMETER,
     "input_types: is 5, must be a list"),
    ("2.23", "NNAdapterCompilation_queryInputsAndOutputs", ["unfinished", "ref", "null", "ref", "null"], PARAMETER,
     "is not finished"),
    ("2.24", "NNAdapterExecution_create", ["null", "ref"], PARAMETER, "compilation: is null"),
    ("2.24", "NNAdapterExecution_create", ["compilation", "null"], PARAMETER, "execution: is null"),
    ("2.24", "NNAdapterExecution_create", ["unfinished", "ref"], PARAMETER, "is not finished"),
    ("2.24", "NNAdapterExecution_create", ["no_compilation", "ref"], PARAMETER, "compilation: is destroyed"),
    ("2.25", "NNAdapterExecution_destroy", ["null"], None, "execution: is null"),
    ("2.25", "NNAdapterExecution_destroy", ["no_execution"], None, "execution: is destroyed"),
    ("2.26", "NNAdapterExecution_setInput", ["null", 0, "array", access], PARAMETER, "execution: is null"),
    ("2.26", "NNAdapterExecution_setInput", ["execution", 1, "array", access], PARAMETER, "input 1: must be 0..0"),
    ("2.26", "NNAdapterExecution_setInput", ["execution", -1, "array", access], PARAMETER, "input -1: must be 0..0"),
    ("2.26", "NNAdapterExecution_setInput", ["execution", "'0'", "array", access], PARAMETER, "must be a whole number"),
    ("2.26", "NNAdapterExecution_setInput", ["execution", 0, "null", access], PARAMETER, "memory: is null"),
    ("2.26", "NNAdapterExecution_setInput", ["execution", 0, "array", "null"], PARAMETER, "access: is null"),
    ("2.26", "NNAdapterExecution_setInput", ["execution", 0, "array", 5], PARAMETER,
     "access: is 5, must be a function"),
    ("2.26", "NNAdapterExecution_setInput", ["no_execution", 0, "array", access], PARAMETER, "execution: is destroyed"),
    ("2.27", "NNAdapterExecution_setOutput", ["null", 0, "array", access], PARAMETER, "execution: is null"),
    ("2.27", "NNAdapterExecution_setOutput", ["execution", 1, "array", access], PARAMETER, "output 1: must be 0..0"),
    ("2.27", "NNAdapterExecution_setOutput", ["execution", 0, "null", access], PARAMETER, "memory: is null"),
    ("2.27", "NNAdapterExecution_setOutput", ["execution", 0, "array", "null"], PARAMETER, "access: is null"),
    ("2.28", "NNAdapterExecution_compute", ["null"], PARAMETER, "execution: is null"),
    ("2.28", "NNAdapterExecution_compute", ["no_execution"], PARAMETER, "execution: is destroyed"),
    ("2.28", "NNAdapterExecution_compute", ["without_output"], PARAMETER, "output 0: is not set"),
    ("2.28", "NNAdapterExecution_compute", ["other_rank"], DIMENSIONS, "has shape .6., must have .2, 3."),
    ("2.28", "NNAdapterExecution_compute", ["other_size"], DIMENSIONS, "has shape .2, 4., must have .2, 3."),
    ("2.28", "NNAdapterExecution_compute", ["short"], DIMENSIONS, "buffer has 20 bytes, .2, 3. has 24"),
    ("2.28", "NNAdapterExecution_compute", ["of_codes"], PARAMETER, "elements of int8, must be float32"),
    ("2.28", "NNAdapterExecution_compute", ["of_nothing"], PARAMETER, "access gives no buffer"),
    ("2.28", "NNAdapterExecution_compute", ["short_output"], DIMENSIONS, "array is .2, 2., must be .2, 3."),
    ("2.28", "NNAdapterExecution_compute", ["failing"], PARAMETER, "access raises RuntimeError: fails"),
]
# fmt: on


def value(word: Any, world: World) -> Any:
    """What a word of a row stands for: a member of the world, a quoted text, or itself."""
    if isinstance(word, list):
        return [value(one, world) for one in word]
    if isinstance(word, str):
        return word[1:-1] if word.startswith("'") else getattr(world, word)
    return word


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1][10:]} {row[4][:40]}")
def test_wrong_use(row: tuple[str, str, list[Any], int | None, str], world: World) -> None:
    _, name, words, code, sentence = row
    assert getattr(c, name)(*[value(word, world) for word in words]) == code
    assert c.last_error().startswith(f"{name}: ")
    assert re.search(sentence, c.last_error()), c.last_error()


def test_every_function_has_rows() -> None:
    assert {row[1] for row in ROWS} == {row.name for row in FUNCTIONS}


@pytest.mark.parametrize("action", ["error", "always"])
def test_a_warning_is_no_error(action: Literal["error", "always"], world: World) -> None:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter(action)
        assert c.NNAdapterContext_create([world.device], 1, "A=1", None, c.Ref()) == 0
    assert len(noted) == (action == "always")
    assert all("A: no device of the context knows this key" in str(one.message) for one in noted)


def test_nothing_of_it_changed_anything(world: World) -> None:
    # The handles that were used wrongly still work.
    array, result = np.array([[1, -2, 3], [4, -5, 6]], np.float32), np.zeros((2, 3), np.float32)
    assert c.NNAdapterExecution_setInput(world.execution, 0, array) == 0
    assert c.NNAdapterExecution_setOutput(world.execution, 0, result) == 0
    assert c.NNAdapterExecution_compute(world.execution) == 0
    assert np.array_equal(result, np.maximum(array, 0))
    assert len(world.model.operations) == 0
    assert len(world.model.operands) == 3
