"""Regions of interest: parts of maps, given by their corners, as tensors of one size."""

from __future__ import annotations

from npusim.frontends.nnef.operations.row import Row

ROWS: tuple[Row, ...] = ()
