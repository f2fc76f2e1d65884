"""What is known of the error of a study's points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.isa.hardware.agreement import standing
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import of_standing

if TYPE_CHECKING:
    from npusim.study.study import Study


def claims(study: Study) -> str:
    """A sentence or two: points have the claim of the base hardware only where all that varies is what the rows behind
    it varied in, too. What fewer bits of weights cost in accuracy, no point says.
    """
    return f"{_of_error(study)}{_of_weight_bits(study)}"


def _of_weight_bits(study: Study) -> str:
    values = [axis.values for axis in study.parameters if axis.path == "mac_array.weight_bits"]
    if not values and not study.space.base.mac_array.few_bits:
        return ""
    return " Results do not change with mac_array.weight_bits: what fewer bits cost in accuracy is not known."


def _of_error(study: Study) -> str:
    base, name = standing(study.space.base), show.printable(study.space.base.name)
    found = [claim for claim in (base.claim("latency"), base.claim("energy")) if claim is not None]
    if base.idealised:
        return f"{name} is an idealised array: the error of its points is not known."
    if not found:
        return f"{name} is {base.basis}: the error of its points is not known."
    values = [(axis.path, value) for axis in study.parameters for value in axis.values]
    if not study.space.derived and all(claim.covers(*each) for claim in found for each in values):
        return f"Error of every point: {of_standing(base)}."
    return f"Error of {name}: {of_standing(base)}. That of points which change its keys is not known."
