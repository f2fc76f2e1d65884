"""The result as JSON: `npusim run --json`. `RunResult.to_dict` and `JobResult.to_dict` say what the keys mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.numbers.job import JobResult
    from npusim.numbers.run import RunResult


def render(result: RunResult | JobResult) -> str:
    """The JSON text; equal for equal runs but for `wall_s`."""
    return json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n"
