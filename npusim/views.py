"""What results show of themselves: figures, tables in a notebook, what a change would bring.

The rooms below make results that are data alone. The public functions give them back as the classes of this file,
which are the same data and know who shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from npusim.comparison import comparison as comparison_data
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.numbers import job as job_data
from npusim.numbers import run as run_data
from npusim.numbers import variants as variants_data
from npusim.reports.notebook import notebook
from npusim.session import api
from npusim.session.inputs import Inputs
from npusim.study import search
from npusim.study import study as study_data
from npusim.study import what_if as variants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Given = ParamSpec("Given")
View = TypeVar("View")


def _with_views(view: type[View], make: Callable[Given, Any]) -> Callable[Given, View]:
    """A function whose result is shown: `view` has the same fields as what the function makes."""

    @wraps(make)
    def shown(*given: Given.args, **named: Given.kwargs) -> View:
        return _viewed(view, make(*given, **named))

    return shown


def _viewed(view: type[View], data: Any) -> View:
    return view(**{each.name: getattr(data, each.name) for each in fields(data)})


class WhatIf(variants_data.WhatIf):
    __doc__ = variants_data.WhatIf.__doc__

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        return notebook.what_if(self)


class RunResult(run_data.RunResult):
    __doc__ = run_data.RunResult.__doc__

    def what_if(self, *, jobs: int | None = None) -> WhatIf:
        """What doubling each hardware parameter would bring: `npusim.what_if` of the model on its hardware.

        A result of `npusim.simulate` has only its program: that is run as it is, on what keeps it valid. Raises
        NpusimError for a model file that is gone or another one by now.
        """
        return _viewed(WhatIf, variants.what_if_result(self, jobs))

    def plot_roofline(self) -> Figure:
        """Layers below the roofs of MAC array and DRAM; a matplotlib Figure."""
        return notebook.figure("roofline", self)

    def plot_timeline(self) -> Figure:
        """What each unit does when; likewise."""
        return notebook.figure("timeline", self)

    def plot_energy(self) -> Figure:
        """Energy by component and layer; likewise."""
        return notebook.figure("energy", self)

    def plot_power(self) -> Figure:
        """Power over time; likewise."""
        return notebook.figure("power", self)

    def plot_occupancy(self) -> Figure:
        """What the scratchpad holds over time; likewise."""
        return notebook.figure("occupancy", self)

    def _repr_html_(self) -> str:
        """The summary and the layers in a notebook."""
        return notebook.result(self)


class Comparison(comparison_data.Comparison):
    __doc__ = comparison_data.Comparison.__doc__

    def _repr_html_(self) -> str:
        """The comparison in a notebook."""
        return notebook.comparison(self)


class Study(study_data.Study):
    __doc__ = study_data.Study.__doc__

    def _repr_html_(self) -> str:
        """The summary in a notebook."""
        return notebook.study(self)


class JobResult(job_data.JobResult):
    __doc__ = job_data.JobResult.__doc__

    def launch(self, number: int) -> RunResult:
        """A launch, by its number from 0, as the result of a run of its program."""
        return _viewed(RunResult, super().launch(number))


def _run_or_job_of(
    make: Callable[Given, run_data.RunResult | job_data.JobResult],
) -> Callable[Given, RunResult | JobResult]:
    """The same for a function that gives one or the other."""

    @wraps(make)
    def shown(*given: Given.args, **named: Given.kwargs) -> RunResult | JobResult:
        data = make(*given, **named)
        if isinstance(data, job_data.JobResult):
            return _viewed(JobResult, data)
        return _viewed(RunResult, data)

    return shown


@overload
def simulate(program: Program, inputs: Inputs | None = None, **how: Any) -> RunResult: ...


@overload
def simulate(program: Executable, inputs: Inputs | None = None, **how: Any) -> JobResult: ...


@wraps(api.simulate)
def simulate(*given: Any, **named: Any) -> RunResult | JobResult:
    return _run_or_job_of(api.simulate)(*given, **named)


run = _run_or_job_of(api.run)
what_if = _with_views(WhatIf, variants.what_if)
compare = _with_views(Comparison, comparison_data.compare)
explore = _with_views(Study, search.explore)
