"""How many random examples hypothesis tries: few and always the same, or as many new ones as NPUSIM_EXAMPLES says."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def examples(number: int) -> settings:
    """Settings of a random test: `number` examples by default, no deadline."""
    wanted = os.environ.get("NPUSIM_EXAMPLES")
    return settings(
        max_examples=int(wanted) if wanted else number,
        derandomize=not wanted,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
