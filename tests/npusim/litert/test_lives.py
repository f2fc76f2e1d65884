"""Lives of interpreters and delegates, each in a process of its own: nothing grows, and nothing ends the process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ...litert.live import needs_litert

ROOT = Path(__file__).resolve().parents[3]

COMMON = """
import faulthandler, gc, sys, threading
faulthandler.enable()
import numpy as np
import npusim.litert
from npusim import models
from ai_edge_litert.interpreter import Interpreter, OpResolverType

DATA = models.path_or_bytes("digits_cnn")

def made(delegates, model=DATA):
    runner = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
                         experimental_delegates=delegates)
    runner.allocate_tensors()
    return runner

def invoke(runner, seed=0):
    [detail] = runner.get_input_details()
    rng = np.random.default_rng(seed)
    runner.set_tensor(detail["index"], rng.integers(-128, 128, detail["shape"]).astype(np.int8))
    runner.invoke()
    return runner.get_tensor(runner.get_output_details()[0]["index"])

EXPECTED = invoke(made(None))
"""


def output(code: str) -> str:
    """What a program prints that begins with COMMON; it must end well and say nothing about errors."""
    done = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.cases(1)
@needs_litert
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the memory of a process is only known on Linux"
)
@pytest.mark.parametrize("operators", [None, ["CONV_2D"]])
def test_200_invokes_take_no_more_memory_than_50(operators: list[str] | None) -> None:
    """What leaks grows between any two counts; an allocator that takes one more piece (2 MB were seen) does so once."""
    growths = output(f"""
        import os
        def resident():
            gc.collect()
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        delegate = npusim.litert.Delegate(operators={operators})
        runner = made([delegate])
        counts = []
        for turn in range(200):
            invoke(runner, turn)
            assert delegate.runs
            if turn % 50 == 49:
                counts.append(resident())
        print(*(later - before for before, later in zip(counts, counts[1:])))
    """)
    steps = sorted(int(growth) for growth in growths.split())
    assert len(steps) == 3
    assert steps[1] < 50 << 10, steps  # a KiB for each invoke
    assert steps[2] < 8 << 20, steps


@pytest.mark.slow
@needs_litert
def test_delegates_and_interpreters_leave_nothing_behind() -> None:
    assert (
        output("""
        from npusim.litert import callbacks
        for _ in range(5):
            delegate = npusim.litert.Delegate()
            runner = made([delegate])
            invoke(runner)
            del runner, delegate
            gc.collect()
        print(len(callbacks._PARTITIONS), len(callbacks._SESSIONS))
    """)
        == "0 0\n"
    )


@pytest.mark.slow
@pytest.mark.cases(1)
@needs_litert
@pytest.mark.parametrize("operators", [None, ["CONV_2D"]])
def test_either_may_go_first(operators: list[str] | None) -> None:
    assert (
        output(f"""
        delegate = npusim.litert.Delegate(operators={operators})
        runner = made([delegate])
        assert np.array_equal(invoke(runner), EXPECTED)
        del runner
        gc.collect()
        assert delegate.runs
        del delegate
        gc.collect()

        delegates = [npusim.litert.Delegate(operators={operators})]
        runner = made(delegates)
        delegates.clear()
        gc.collect()
        assert np.array_equal(invoke(runner), EXPECTED)
        del runner
        gc.collect()

        from tests.npusim.litert.interpreters import open_batch
        delegates = [npusim.litert.Delegate()]
        runner = made(delegates, open_batch())
        delegates.clear()
        gc.collect()
        runner.resize_tensor_input(runner.get_input_details()[0]["index"], [2, 4, 6])
        runner.allocate_tensors()
        assert invoke(runner).shape == (2, 24)
        del runner
        gc.collect()
        print("lives")
    """)
        == "lives\n"
    )


@pytest.mark.slow
@needs_litert
def test_threads_have_their_own_and_pass_them_on() -> None:
    assert (
        output("""
        passed, wrong = [], []
        def work(operators):
            delegate = npusim.litert.Delegate(operators=operators)
            runner = made([delegate])
            for _ in range(10):
                if not np.array_equal(invoke(runner), EXPECTED) or not delegate.runs:
                    wrong.append(operators)
            passed.append((runner, delegate) if operators else (delegate, runner))
        threads = [threading.Thread(target=work, args=(operators,)) for operators in (None, ["CONV_2D"]) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while passed:
            passed.pop()  # in another thread than where they were made
        print(wrong)
    """)
        == "[]\n"
    )


@pytest.mark.slow
@needs_litert
def test_both_may_be_alive_when_python_ends() -> None:
    assert (
        output("""
        delegate = npusim.litert.Delegate()
        runner = made([delegate])
        invoke(runner)
        circle = [runner, delegate]
        circle.append(circle)
        print("lives")
    """)
        == "lives\n"
    )


@pytest.mark.slow
@needs_litert
def test_an_interrupt_goes_on_and_a_fault_of_npusim_stays_inside() -> None:
    assert output("""
        from npusim.litert.engines import OnMachine
        delegate = npusim.litert.Delegate()
        runner = made([delegate])
        right = OnMachine.run
        for error in (KeyboardInterrupt(), MemoryError(), ZeroDivisionError("50 % of it")):
            def run(self, inputs):
                raise error
            OnMachine.run = run
            try:
                invoke(runner)
            except RuntimeError as fault:
                print(f'{delegate._session.fault}\\n' in str(fault))
            except KeyboardInterrupt:
                print("interrupted")
            try:
                delegate.runs
            except npusim.NpusimError as fault:
                print(fault)
        OnMachine.run = right
        print(np.array_equal(invoke(runner), EXPECTED), len(delegate.runs))
    """).splitlines() == [
        *("interrupted", "npusim.litert: interrupted", "True"),
        *("npusim.litert: not enough memory for the model on the simulated NPU", "True"),
        "npusim.litert: npusim itself fails: ZeroDivisionError: 50 % of it; please report it",
        "True 1",
    ]


@pytest.mark.slow
@pytest.mark.cases(1)
@needs_litert
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C there")
@pytest.mark.parametrize("call", ["allocate_tensors", "invoke"])
def test_ctrl_c_is_a_keyboard_interrupt(call: str) -> None:
    assert (
        output(f"""
        import os, signal, time
        from npusim.litert import engines
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may have it ignored
        delegate = npusim.litert.Delegate()
        runner = Interpreter(model_content=DATA, experimental_delegates=[delegate])
        def interrupted(*arguments):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        before = engines.OnMachine.__init__, engines.OnMachine.run
        if {call!r} == "invoke":
            runner.allocate_tensors()
            engines.OnMachine.run = interrupted
        else:
            engines.OnMachine.__init__ = interrupted
        try:
            runner.{call}()
        except KeyboardInterrupt:
            print("KeyboardInterrupt", isinstance(runner, Interpreter), type(runner).__name__)
        engines.OnMachine.__init__, engines.OnMachine.run = before
        Interpreter(model_content=DATA, experimental_delegates=[npusim.litert.Delegate()]).allocate_tensors()
        print(np.array_equal(invoke(made([npusim.litert.Delegate()])), EXPECTED))
    """)
        == "KeyboardInterrupt True Interpreter\nTrue\n"
    )


@pytest.mark.slow
@needs_litert
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux lets addresses be tried")
def test_structures_that_are_laid_out_otherwise_are_refused() -> None:
    """A field too many in the context, the tensor, the node or the registration, wherever it is, never crashes."""
    assert (
        output("""
        import ctypes
        from npusim.litert import c_structs as structs
        tried = 0
        for kind, used in (
            (structs.Context, structs.Context),
            (structs.Tensor, structs.Tensor),
            (structs.Node, structs.Node),
            (structs.ReadRegistration, structs.ReadRegistration),
        ):
            last = {"Context": 9, "Tensor": 12, "Node": 2, "ReadRegistration": 6}[kind.__name__]
            for place in range(last):
                fields = list(kind._fields_)
                fields.insert(place, ("surplus", ctypes.c_void_p))
                other = type(kind.__name__, (ctypes.Structure,), {"_fields_": fields})
                from npusim.litert import handshake
                before = getattr(handshake, kind.__name__)
                setattr(handshake, kind.__name__, other)
                delegate = npusim.litert.Delegate()
                try:
                    made([delegate])
                    print(kind.__name__, place, "is not seen")
                except RuntimeError as fault:
                    tried += 1
                    try:
                        delegate.check()
                        print(kind.__name__, place, "is silent")
                    except npusim.NpusimError as ours:
                        assert "ai-edge-litert 2." in str(ours), ours
                finally:
                    setattr(handshake, kind.__name__, before)
        assert np.array_equal(invoke(made([npusim.litert.Delegate()])), EXPECTED)
        print(tried)
    """)
        == "29\n"
    )
