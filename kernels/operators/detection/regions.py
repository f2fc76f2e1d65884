"""Regions of interest of feature maps: what roi_align and roi_pooling share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npusim.isa.base.errors import OperandFault
from npusim.kernels.operator import parameters
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Shapes, Values
from npusim.kernels.operator.parameters import Pair
from npusim.kernels.operators.detection.boxes import COORDINATES, Float32Array, IntArray, check_images
from npusim.kernels.operators.detection.reals import arrays

MAPS, REGIONS, IMAGES = range(3)

TYPES = (
    "float32, float32, int32 -> float32",
    "float16, float16, int32 -> float16",
    "uint8, uint16|float32, int32 -> uint8",
    "int8, uint16|float32, int32 -> int8",
)


class Parameters(parameters.Parameters):
    """size: height and width of the results. height_stride, width_stride: size of the image over that of the map."""

    size: Pair
    height_stride: float
    width_stride: float


class Regions(NamedTuple):
    """Feature maps, the corners of regions in their pixels, and the image of each region."""

    maps: Float32Array
    corners: Float32Array
    images: IntArray


def infer(call: Call[Parameters]) -> Shapes:
    """One result per region, as deep as the maps."""
    return ((input_type(call, REGIONS).shape[0], *call.parameters.size, input_type(call).shape[3]),)


def regions(call: Call[Parameters], values: Values) -> Regions:
    """The operands of a call. Raises OperandFault for a region of no image, without size, or outside its image."""
    maps, boxes, images = arrays(values, 3)
    check_images(images, len(maps))
    asked = call.parameters
    scale = np.array([asked.width_stride, asked.height_stride] * 2, np.float32)
    corners = boxes / scale
    most = np.array([maps.shape[2], maps.shape[1]] * 2, np.float32)
    turned = (boxes[:, :2] > boxes[:, 2:]).any(axis=1)
    outside = ~((corners >= 0) & (corners <= most)).all(axis=1)
    for wrong, what in ((turned, "ends before it begins"), (outside, "lies outside its image")):
        if wrong.any():
            raise OperandFault(f"region {int(np.argmax(wrong))} {what}")
    return Regions(maps, corners, images)


def anywhere(call: Call[Parameters], values: Values) -> Regions:
    """The operands of a call whose regions may lie outside their images.

    Raises OperandFault for one of no image, or without an end.
    """
    maps, boxes, images = arrays(values, 3)
    check_images(images, len(maps))
    asked = call.parameters
    scale = 1 / np.array([asked.width_stride, asked.height_stride] * 2)
    corners = boxes * scale.astype(np.float32)
    endless = ~np.isfinite(corners).all(axis=1)
    if endless.any():
        raise OperandFault(f"region {int(np.argmax(endless))} has corners that are no numbers")
    return Regions(maps, corners, images)


def shapes(call: Call[Parameters]) -> bool:
    """maps are [images, height, width, depth], regions [n, 4], images [n], and outputs [n, the size, depth]"""
    maps, boxes, images = (input_type(call, position).shape for position in range(3))
    if len(maps) != 4 or len(boxes) != 2 or boxes[1] != COORDINATES or images != boxes[:1]:
        return False
    return infer(call) == tuple(output.shape for output in call.outputs)


def strides(call: Call[Parameters]) -> bool:
    """the strides are above 0"""
    return call.parameters.height_stride > 0 and call.parameters.width_stride > 0
