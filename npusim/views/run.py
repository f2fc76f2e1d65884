"""The public classes of run results, with figures and notebook tables.

The modules that draw them are imported at the first use, because most runs need none.
"""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, overload

from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.numbers import job as job_data
from npusim.numbers import run as run_data
from npusim.session import api
from npusim.session.inputs import Inputs
from npusim.views.shown import viewed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from npusim.numbers.answer import Answer
    from npusim.views.what_if import WhatIf


class RunResult(run_data.RunResult):
    __doc__ = run_data.RunResult.__doc__

    @property
    def answer(self) -> Answer | None:
        """Reason, bound and levers, as in the last lines of `npusim run`; levers are simulated on first access.

        A program that was simulated alone has no levers. Raises NpusimError if the model file is gone.
        """
        if self.tried is None:
            from npusim.study.levers import levers_of

            vars(self)["tried"] = levers_of(self, vars(self).get(_ASKED, {}))
        return super().answer

    def what_if(self, *, jobs: int | None = None) -> WhatIf:
        """Simulate the model with each hardware parameter doubled, as `npusim.what_if` does.

        A result of `npusim.simulate` has only its program: that is run as it is, on what keeps it valid. Raises
        NpusimError for a model file that is gone or another one by now.
        """
        from npusim.views.what_if import what_if_result

        return what_if_result(self, jobs)

    def plot_roofline(self) -> Figure:
        """Plot the layers below the roofs of MAC array and DRAM, as a matplotlib Figure."""
        return _figure("roofline", self)

    def plot_timeline(self) -> Figure:
        """Plot the activity of each unit over time."""
        return _figure("timeline", self)

    def plot_energy(self) -> Figure:
        """Plot the energy by component and layer."""
        return _figure("energy", self)

    def plot_power(self) -> Figure:
        """Plot the power over time."""
        return _figure("power", self)

    def plot_occupancy(self) -> Figure:
        """Plot the buffers in the scratchpad over time."""
        return _figure("occupancy", self)

    def _repr_html_(self) -> str:
        """Return the summary and the layers as HTML for a notebook."""
        from npusim.reports.notebook import notebook

        return notebook.result(self)


def _figure(name: str, result: RunResult) -> Figure:
    from npusim.reports.notebook import notebook

    return notebook.figure(name, result)


class JobResult(job_data.JobResult):
    __doc__ = job_data.JobResult.__doc__

    def launch(self, number: int) -> RunResult:
        """Return a launch, by its number from 0, as the result of a run of its program."""
        return viewed(RunResult, super().launch(number))


def _shown(data: run_data.RunResult | job_data.JobResult) -> RunResult | JobResult:
    return viewed(JobResult, data) if isinstance(data, job_data.JobResult) else viewed(RunResult, data)


@overload
def simulate(program: Program, inputs: Inputs | None = None, **options: Any) -> RunResult: ...


@overload
def simulate(program: Executable, inputs: Inputs | None = None, **options: Any) -> JobResult: ...


@wraps(api.simulate)
def simulate(*given: Any, **named: Any) -> RunResult | JobResult:
    return _shown(api.simulate(*given, **named))


_ASKED = "_asked"
"""Attribute of a result with the arguments of the `npusim.run` call that made it."""


@wraps(api.run)
def run(*given: Any, **named: Any) -> RunResult | JobResult:
    result = _shown(api.run(*given, **named))
    vars(result)[_ASKED] = signature(api.run).bind(*given, **named).arguments
    return result
