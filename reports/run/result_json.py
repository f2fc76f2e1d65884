"""The result as JSON (`npusim run --json`): the keys are those of `RunResult.to_dict` and `JobResult.to_dict`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.base.files import json_text

if TYPE_CHECKING:
    from npusim.numbers.job import JobResult
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import RunTable


def render(result: RunResult | JobResult | RunTable) -> str:
    """Return the JSON text of a result or of a table of runs; equal runs differ in `wall_s` only."""
    return json_text(result.to_dict())


render_runs = render
