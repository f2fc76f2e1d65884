"""From a model to results: devices, contexts, compilations, executions."""

from __future__ import annotations

import numpy as np
import pytest

from npusim import nnadapter as nna


def relu_model() -> nna.Model:
    """relu of float32 [2, 3]."""
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    model.identify(inputs=[x], outputs=[model.relu(x)])  # type: ignore[list-item]
    model.finish()
    return model


DATA = np.array([[1, -2, 3], [4, -5, 6]], np.float32)


@pytest.mark.parametrize(
    "names", [["npusim"], ["npusim_host"], ["builtin_device"], ["edge-64", "npusim_host"]]
)
def test_one_operation_on_simulated_devices(names: list[str]) -> None:
    with nna.Context([nna.Device.acquire(name) for name in names]) as context:
        compilation = nna.Compilation(relu_model(), context)
        compilation.finish()
        execution = nna.Execution(compilation)
        execution.set_input(0, DATA)
        first, second = execution.compute(), execution.compute()
    assert np.array_equal(first.outputs[0], np.maximum(DATA, 0))
    assert np.array_equal(second.outputs[0], first.outputs[0])
    assert first.cycles == second.cycles > 0
    assert [piece.device for piece in first.pieces] == names[-1:]


def test_a_name_that_no_device_has() -> None:
    with pytest.raises(nna.DeviceNotFound, match="'npusin': does not exist, did you mean npusim"):
        nna.Device.acquire("npusin")
