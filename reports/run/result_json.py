"""The result as JSON: `npusim run --json`. `RunResult.to_dict` and `JobResult.to_dict` define the keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.numbers.job import JobResult
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import RunTable


def render(result: RunResult | JobResult) -> str:
    """Return the JSON text; equal runs differ in `wall_s` only."""
    return _text(result.to_dict())


def render_runs(table: RunTable) -> str:
    """Return the JSON text of a table of runs."""
    return _text(table.to_dict())


def _text(plain: dict[str, Any]) -> str:
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"
