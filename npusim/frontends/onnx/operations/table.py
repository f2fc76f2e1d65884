"""Every operation of ONNX that npusim has, one row each."""

from __future__ import annotations

from npusim.frontends.forms import quantization
from npusim.frontends.forms.row import Row
from npusim.frontends.onnx.operations import (
    attention,
    blocks,
    control,
    convolutions,
    detection,
    einsum,
    elementwise,
    functions,
    fused_attention,
    gathers,
    matrices,
    movement,
    normalizations,
    pools,
    products,
    qoperators,
    recurrent,
    reductions,
    resampling,
    shapes,
)
from npusim.kernels.operator.registered import custom, plain, result_types
from npusim.kernels.table import known

ROWS: tuple[Row, ...] = tuple(
    sorted(
        (
            *attention.ROWS,
            *blocks.ROWS,
            *control.ROWS,
            *convolutions.ROWS,
            *detection.ROWS,
            *einsum.ROWS,
            *elementwise.ROWS,
            *functions.ROWS,
            *fused_attention.ROWS,
            *gathers.ROWS,
            *matrices.ROWS,
            *movement.ROWS,
            *normalizations.ROWS,
            *pools.ROWS,
            *products.ROWS,
            *qoperators.ROWS,
            *quantization.ROWS,
            *recurrent.ROWS,
            *reductions.ROWS,
            *resampling.ROWS,
            *shapes.ROWS,
        ),
        key=lambda row: (row.domain, row.name),
    )
)
"""By domain and name."""

_BY_NAME = {(row.domain, row.name): row for row in ROWS}


def row(domain: str, name: str) -> Row | None:
    """Return the row of an operation, or of one that the user registered as "domain.name"; None if there is none."""
    found = _BY_NAME.get((domain, name))
    kind = f"{domain}.{name}" if domain else name
    if found is None and known(op := custom(kind)):
        types = result_types(kind)
        return Row(
            name, "X*", lambda c: c.own(op, types, plain(c.source.attributes)), (), domain, groups=False
        )
    return found
