"""What compiler and machine read of the hardware, against the table of stages; reuse never changes a number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import npusim
from npusim.isa.base.fields import Section
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameters
from npusim.isa.program.interpreter import interpret
from npusim.machine.system import execute
from npusim.session.api import host_functions
from npusim.session.inputs import draw
from npusim.study.evaluate import Evaluator, Job, Workload, order
from npusim.study.space import Space
from npusim.study.stages import Stage, paths_up_to, stage

from .spaces import digits, space_file


@contextmanager
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The parameters that are read, by path."""
    read: set[str] = set()
    tables = {type(getattr(Hardware(name="x"), name)): name for name in Hardware.model_fields}
    sections = {kind: name for kind, name in tables.items() if issubclass(kind, Section)}
    with monkeypatch.context() as patch:
        for kind, prefix in {Hardware: "", **{kind: f"{name}." for kind, name in sections.items()}}.items():
            patch.setattr(kind, "__getattribute__", _recorder(kind, prefix, read), raising=False)
        yield read


def _recorder(kind: type[Any], prefix: str, read: set[str]) -> Any:
    plain, fields = kind.__getattribute__, frozenset(kind.model_fields)

    def get(self: Any, name: str) -> Any:
        if name in fields:
            read.add(f"{prefix}{name}")
        return plain(self, name)

    return get


def unusual(seed: int) -> Hardware:
    """Hardware that no cache has seen, with an array that none has seen either."""
    changes = {
        "clock_mhz": 500 + seed / 1000,
        "dma.decoder_bytes_per_cycle": 8,
        "mac_array.accumulator_kib": 37 + seed,
    }
    return hardware_file.change(hardware_file.hardware("edge-128"), changes)


MODELS = ("digits_cnn", "ds_cnn", "mobilenet_v1")


@pytest.mark.parametrize("seed", range(len(MODELS)))
def test_compiler_and_machine_read_what_the_table_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, hardware = npusim.load(MODELS[seed]), unusual(seed)
    with recording(monkeypatch) as read:
        program = npusim.compile(graph, hardware)
    by_compiler = {path for path in read if "." in path or path == "clock_mhz"}
    # Its name is in messages and in the program.
    assert by_compiler <= {*paths_up_to(Stage.ESTIMATE)}
    assert {"mac_array.rows", "scratchpad.size_kib", "clock_mhz", "dram.bandwidth_gb_per_s"} <= by_compiler
    with recording(monkeypatch) as read:
        execute(program, data=False)
    by_machine = {path for path in read if "." in path or path == "clock_mhz"}
    assert by_machine <= {*paths_up_to(Stage.TIME)}
    # So the test is able to fail.
    assert "front_end.fetch_instructions" in by_machine - by_compiler


def test_the_table_names_parameters_only() -> None:
    paths = [each.path for each in parameters()]
    assert stage("no.such.parameter") is Stage.STRUCTURE
    assert {stage(path) for path in paths} == set(Stage)
    assert stage("host.threads") is Stage.ESTIMATE
    assert stage("host.call_overhead_us") is Stage.ENERGY


# Values for every parameter that may vary; some of their combinations break rules between parameters.
VALUES: dict[str, list[Any]] = {
    "clock_mhz": [100, 500, 680],
    "front_end.queue_depth": [1, 2, 16],
    "front_end.fetch_instructions": [1, 4, 8],
    "front_end.decode_cycles": [0, 1, 20],
    "dma.channels": [1, 2, 4],
    "dma.setup_cycles": [0, 16, 200],
    "dma.port_bytes_per_cycle": [4, 16, 64],
    "dma.decoder_bytes_per_cycle": [0, 4],
    "dram.bandwidth_gb_per_s": [0.1, 0.5, 8],
    "dram.latency_ns": [0, 100, 400],
    "dram.row_bytes": [512, 2048],
    "dram.row_miss_ns": [0, 25],
    "dram.banks": [1, 8],
    "dram.burst_bytes": [16, 32, 64],
    "dram.grant_bytes": [64, 512],
    "dram.outstanding_requests": [1, 16],
    "scratchpad.size_kib": [16, 64, 256],
    "scratchpad.banks": [4, 16],
    "scratchpad.bank_ports": [1, 2],
    "scratchpad.port_bytes": [8, 16],
    "mac_array.rows": [4, 16],
    "mac_array.columns": [4, 8, 16],
    "mac_array.dataflow": ["weight_stationary", "output_stationary", "both"],
    "mac_array.shadow_weights": [True, False],
    "mac_array.accumulator_kib": [1, 16],
    "mac_array.ifm_bytes_per_cycle": [4, 16],
    "mac_array.weight_bytes_per_cycle": [2, 8],
    "mac_array.output_lanes": [1, 8],
    "vector.lanes": [1, 8, 32],
    "vector.add_cycles": [1, 4],
    "host.core": ["cortex-m7", "cortex-a53"],
    "host.call_overhead_us": [0, 20],
    "technology.node_nm": [28, 7],
    "technology.dram": ["lpddr4", "psram"],
}


@pytest.mark.slow
def test_cached_equals_cold_for_memories_with_clocks_and_prices_of_their_own() -> None:
    space = space_file(
        {
            "memory.l2.clock_ratio": [1.0, 2.5],
            "memory.l2.latency_cycles": [0, 11],
            "memory.l2.access_bytes": [4, 8],
            "clock_mhz": [240, 370],
            "scratchpad.read_pj_per_byte": [0.1, 1.0],
        },
        extends="gap9",
        keep=["cycles", "energy_uj.total", "performance_info.powerUsage", "power_mw.peak"],
    ).space
    job = Job(space, (digits(),))
    warm, cold = Evaluator(job), Evaluator(job, caching=False)
    found = []
    for group in order(space, list(range(space.size))):
        for point in group:
            found.append(warm.record(point))
            assert found[-1] == cold.record(point)
    # Cycles follow ratio, latency and access; no clock and no price changes them.
    assert len({record.values["cycles.total"] for record in found}) == 2 * 2 * 2


def random_space(seed: int, **tables: Any) -> Space:
    """Six parameters of any stage."""
    chosen = random.Random(seed).sample(sorted(VALUES), 6)
    keep = ["cycles", "energy_uj.static", "performance_info.powerUsage", "power_mw.peak"]
    return space_file({path: VALUES[path] for path in chosen}, keep=keep, **tables).space


@pytest.mark.slow
@pytest.mark.cases(3)
@pytest.mark.parametrize("programs", ["own", "shared"])
@pytest.mark.parametrize("seed", range(6))
def test_cached_equals_cold(seed: int, programs: str) -> None:
    space = random_space(seed, programs=programs)
    job = Job(space, (digits(),))
    warm, cold = Evaluator(job), Evaluator(job, caching=False)
    points = random.Random(seed).sample(range(space.size), min(16, space.size))
    for group in order(space, points):
        for point in group:
            assert warm.record(point) == cold.record(point)


@pytest.mark.parametrize("seed", range(6))
def test_shared_programs_run_exactly_on_any_timing(seed: int) -> None:
    # The compiler never saw this clock, these queues and ports; bytes must not depend on them.
    varied = {path: VALUES[path] for path in VALUES if stage(path) in (Stage.ESTIMATE, Stage.TIME)}
    space = space_file(varied, programs="shared", sampler={"kind": "random"}).space
    assert space.program_paths == ()
    graph, chosen = npusim.load("digits_cnn"), random.Random(seed)
    setting = space.setting(chosen.randrange(space.size))
    program = npusim.compile(graph, space.compiled_for(setting))
    inputs = draw(program.inputs, seed)
    hosts = host_functions(program)
    done = execute(program, inputs, host_functions=hosts, hardware=space.hardware(setting))
    expected = interpret(program, inputs, host_functions=hosts)
    for array, other in zip(done.outputs or (), expected, strict=True):
        assert array.tobytes() == other.tobytes()


def test_points_are_computed_in_groups_that_share_a_program() -> None:
    space = space_file(
        {"technology.node_nm": [28, 7], "mac_array.rows": [8, 16], "front_end.fetch_instructions": [1, 4]}
    ).space
    groups = order(space, range(space.size))
    rows = [{space.point(point)["mac_array.rows"] for point in group} for group in groups]
    assert rows == [{8}, {16}]
    fetches = [space.point(point)["front_end.fetch_instructions"] for point in groups[0]]
    assert fetches == [1, 1, 4, 4]


def test_the_cache_compiles_once_and_executes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"compile": 0, "execute": 0}
    from npusim.study import evaluate

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **named)

        return call

    compile_program = counting("compile", evaluate.api.compile_program)
    monkeypatch.setattr(evaluate.api, "compile_program", compile_program)
    monkeypatch.setattr(evaluate.machine, "execute", counting("execute", evaluate.machine.execute))
    space = space_file({"technology.node_nm": [28, 22, 7], "front_end.fetch_instructions": [1, 4]}).space
    evaluator = Evaluator(Job(space, (digits(),)))
    records = [evaluator.record(point) for group in order(space, range(6)) for point in group]
    assert counts == {"compile": 1, "execute": 2}
    assert len({record.values["energy_uj.total"] for record in records}) == 6


def test_weights_and_names_of_models_are_kept_apart() -> None:
    assert Workload("a", npusim.load("digits_cnn")).digest == digits().digest
    assert digits().digest != Workload("digits_cnn", npusim.load("ds_cnn")).digest
