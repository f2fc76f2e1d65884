"""The table `[mac_array]` of a hardware file: what every kind of MAC array is described by."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from npusim.isa.base.fields import MORE, Capacity, Positive, Section


class MacArray(Section):
    """rows x columns multipliers with 9-bit operands, int32 accumulators and an output stage."""

    kind: str = Field(
        default="systolic", max_length=64, description="how it computes: a kind of isa/engines/kinds.py"
    )
    rows: Positive = Field(default=16, le=1024, description="multipliers along the dot product")
    columns: Positive = Field(default=8, le=1024, description="multipliers along the output channels")
    dataflow: Literal["weight_stationary", "output_stationary", "both"] = Field(
        default="both",
        description="mappings that the array supports; with both, the compiler chooses per layer",
    )
    shadow_weights: bool = Field(
        default=True, description="second weight register per multiplier: loads hide behind streaming"
    )
    accumulator_kib: Capacity = Field(
        default=16, le=65_536, description="int32 accumulators, used as two halves"
    )
    ifm_bytes_per_cycle: Positive = Field(
        default=16, le=4096, description="scratchpad port for the feature map"
    )
    weight_bytes_per_cycle: Positive = Field(
        default=8, le=4096, description="scratchpad port for the weights"
    )
    output_lanes: Positive = Field(
        default=8, le=1024, description="elements requantised and written per cycle"
    )
    float16_columns: Annotated[int, Field(ge=0, json_schema_extra=MORE)] = Field(
        default=0, le=1024, description="columns that also compute float16, a multiplier each; 0: none"
    )
    float32_columns: Annotated[int, Field(ge=0, json_schema_extra=MORE)] = Field(
        default=0, le=1024, description="likewise float32"
    )
