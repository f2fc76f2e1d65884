"""Field types of a hardware file: allowed range, factors that what-if runs try, and which machines read the field."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from npusim.isa.base.lazy_dataclass import dataclass

# Factors by which a what-if run multiplies the parameter (npusim.study.what_if).
MORE: Any = {"what_if": [2.0]}
MORE_OR_LESS: Any = {"what_if": [2.0, 0.5]}
# Parameters that an architect does not choose, because the DRAM, the circuits or the host determine them.
GIVEN: Any = {"what_if": [2.0], "given": True}
GIVEN_TIME: Any = {"what_if": [2.0, 0.5], "given": True}

Positive = Annotated[int, Field(gt=0, json_schema_extra=MORE)]
# The limits are a thousandth of the least and a thousand times the most that is built. Beyond them, times of a run
# exceed what integer cycle counts and sums of energy can hold.
Rate = Annotated[float, Field(ge=1e-6, le=1e6, json_schema_extra=MORE)]
Clock = Annotated[float, Field(ge=1e-3, le=10_000, json_schema_extra=MORE)]
# Capacities: what-if runs also halve them, because less is cheaper.
Capacity = Annotated[int, Field(gt=0, json_schema_extra=MORE_OR_LESS)]
# Times: what-if runs also halve them, because less is faster.
Cycles = Annotated[int, Field(ge=0, json_schema_extra=GIVEN_TIME)]
PositiveCycles = Annotated[int, Field(gt=0, json_schema_extra=MORE_OR_LESS)]
Time = Annotated[float, Field(ge=0, le=1e6, json_schema_extra=GIVEN_TIME)]
Given = Annotated[int, Field(gt=0, json_schema_extra=GIVEN)]
GivenClock = Annotated[float, Field(ge=1e-3, le=10_000, json_schema_extra=GIVEN)]


class Section(BaseModel):
    """A table of a hardware file: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Metadata of a field of a hardware file: which machines read the key or table.

    All machines read a field without this metadata.

    types:  the MAC engine types (`mac_array.kind`) whose cycles depend on the key; empty: all of them.
    priced: whether the other types also read it, for area or energy alone.
    needs:  dotted paths of `Hardware`, or of the key's own table where they begin with a dot. The key is read where
            one of them is neither zero nor false.
    words:  what such a machine has, for messages and documents; the paths of `needs` if empty.
    """

    types: tuple[str, ...] = ()
    priced: bool = False
    needs: tuple[str, ...] = ()
    words: str = ""

    @property
    def needed(self) -> str:
        """Return the features that a machine must have to read the key; empty if only the MAC engine type decides."""
        return self.words or " or ".join(self.needs)


ON_NPU = ReadBy(needs=("has_npu",), words="an NPU that computes something (lacks_operators)")
