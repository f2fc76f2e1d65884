"""Whole networks through the HAL: what `npusim.run` computes and counts."""

from __future__ import annotations

import time

import numpy as np
import pytest

import npusim
import npusim.hal as hal
from npusim.kernels.graph.graph import Graph
from tests.examples import NIGHT
from tests.npusim.hal.networks import model_of, of_one_scale, request_of


def inputs_of(graph: Graph) -> list[np.ndarray]:
    kinds = [graph.tensors[number].type for number in graph.inputs]
    rng = np.random.default_rng(7)
    return [rng.integers(-128, 128, kind.shape).astype(kind.dtype) for kind in kinds]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits_cnn", "mobilenet_v2"])
def test_a_network_gives_the_bytes_cycles_and_energy_of_a_run(name: str) -> None:
    graph = of_one_scale(npusim.load(name))
    values = inputs_of(graph)
    request, written = request_of(graph, values)
    done = hal.Device().prepareModel(model_of(graph)).unwrap().execute(request).unwrap()
    alone = npusim.simulate(npusim.compile(graph), values)
    assert bytes(written) == b"".join(output.tobytes() for output in alone.outputs)
    assert done.run.cycles == alone.cycles
    assert float(done.run.energy_uj) == float(alone.energy_uj)
    assert [layer.op for layer in done.run.layers] == [layer.op for layer in alone.layers]


@pytest.mark.slow
def test_the_driver_costs_little_beside_a_run() -> None:
    """Preparing and executing MobileNetV2 against loading, compiling and simulating it: 1.2 times at most, of processor
    time, the best of some attempts each; here with room for a machine that does other things."""
    graph = of_one_scale(npusim.load("mobilenet_v2"))
    model, (request, _) = model_of(graph), request_of(graph, inputs_of(graph))
    device = hal.Device()
    driver, run = [], []
    for _ in range(4 if NIGHT else 2):
        begin = time.process_time()
        device.prepareModel(model).unwrap().execute(request).unwrap()
        driver.append(time.process_time() - begin)
        begin = time.process_time()
        npusim.run("mobilenet_v2")
        run.append(time.process_time() - begin)
    assert min(driver) < 1.5 * min(run)
