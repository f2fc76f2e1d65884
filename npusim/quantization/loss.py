"""The error of quantization: outputs of the quantized network compared with those of the float network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import inf, isinf, log10
from typing import Any

import numpy as np

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array

_LEAST_CLASSES = 2


@dataclass(frozen=True, slots=True)
class Loss:
    """The quantization error of one output over all samples.

    largest, mean: largest and mean absolute difference, in the unit of the output.
    range:         largest minus smallest value of the float network.
    snr_db:        power of the float output over that of the differences, in dB; infinite where nothing differs.
    cosine:        cosine of the angle between the two outputs, with all samples as one vector; 1 for equal directions.
    top_1:         share of samples with the same largest class; None if the output has no row of classes per sample.
    """

    output: str
    largest: float
    mean: float
    range: float
    snr_db: float
    cosine: float
    top_1: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite ratio is None."""
        return asdict(self) | {"snr_db": None if isinf(self.snr_db) else self.snr_db}


def losses(
    names: Sequence[str], floats: Sequence[Sequence[Array]], quantized: Sequence[Sequence[Array]]
) -> tuple[Loss, ...]:
    """Return the loss of every output; `floats` and `found` have the outputs of each sample, both as floats."""
    return tuple(
        _loss(name, [outputs[place] for outputs in floats], [outputs[place] for outputs in quantized])
        for place, name in enumerate(names)
    )


def _loss(name: str, floats: Sequence[Array], quantized: Sequence[Array]) -> Loss:
    wanted = np.concatenate([value.reshape(-1) for value in floats]).astype(np.float64)
    got = np.concatenate([value.reshape(-1) for value in quantized]).astype(np.float64)
    apart = np.abs(got - wanted)
    power, noise = float((wanted**2).sum()), float((apart**2).sum())
    length = float(np.sqrt(power) * np.linalg.norm(got))
    return Loss(
        output=name,
        largest=float(apart.max(initial=0.0)),
        mean=float(apart.mean()) if apart.size else 0.0,
        range=float(wanted.max(initial=-inf) - wanted.min(initial=inf)) if wanted.size else 0.0,
        snr_db=inf if not noise else 10 * log10(power / noise) if power else -inf,
        cosine=float(wanted @ got) / length if length else float(power == noise == 0.0),
        top_1=_agreement(floats, quantized),
    )


def _agreement(floats: Sequence[Array], quantized: Sequence[Array]) -> float | None:
    """Return the share of rows with the same largest element; None if the output has no row of classes per sample."""
    if not floats or floats[0].dtype.kind != "f" or floats[0].ndim < 2:
        return None
    batch, *_, classes = floats[0].shape
    if classes < _LEAST_CLASSES or floats[0].size != batch * classes:
        return None
    same = [
        ours.reshape(-1, classes).argmax(-1) == theirs.reshape(-1, classes).argmax(-1)
        for ours, theirs in zip(floats, quantized, strict=True)
    ]
    return float(np.concatenate(same).mean())
