"""How many random examples hypothesis tries: few and always the same, or new ones.

NPUSIM_EXAMPLES says how many new ones; NPUSIM_NIGHT=1 tries ten times as many as by day.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

NIGHT = bool(os.environ.get("NPUSIM_NIGHT"))
"""Whether tests try all that they can, whatever it takes (`make nightly`)."""


def examples(number: int) -> settings:
    """Settings of a random test: `number` examples by default, no deadline."""
    wanted = os.environ.get("NPUSIM_EXAMPLES")
    return settings(
        max_examples=int(wanted) if wanted else 10 * number if NIGHT else number,
        derandomize=not (wanted or NIGHT),
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
