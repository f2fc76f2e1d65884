"""The C structures between LiteRT and a delegate, as ctypes structures.

Source: tflite/core/c/common.h of LiteRT, Apache-2.0. LiteRT only adds fields at the end. So its structures are read up
to the last known field, and ours have zeros behind it.
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)

OK, ERROR = 0, 1
"""What callbacks return."""

DELEGATE_CODE = 51
CUSTOM_CODE = 32
MAPPED_READ_ONLY, DYNAMIC = 1, 4
"""Allocation types: constants of the file, and tensors whose size comes out of an invoke."""
ALLOW_DYNAMIC_TENSORS = 1
"""The flag of a delegate that takes graphs with dynamic tensors, and sizes that change after it was applied."""

_KINDS = (
    *(
        "FLOAT32",
        "INT32",
        "UINT8",
        "INT64",
        "STRING",
        "BOOL",
        "INT16",
        "COMPLEX64",
        "INT8",
        "FLOAT16",
        "FLOAT64",
    ),
    *("COMPLEX128", "UINT64", "RESOURCE", "VARIANT", "UINT32", "UINT16", "INT4", "BFLOAT16"),
)
KINDS = {name: code for code, name in enumerate(_KINDS, 1)}
"""TfLiteType by the schema's name of the element type; the schema numbers them otherwise."""

_SPARE = 128


class Quantization(Structure):
    """TfLiteQuantizationParams."""

    _fields_ = [("scale", c_float), ("zero_point", c_int32)]


class Tensor(Structure):
    """TfLiteTensor. `data` is the address of its elements, `dims` that of a TfLiteIntArray."""

    _fields_ = [
        ("type", c_int),
        ("data", c_void_p),
        ("dims", c_void_p),
        ("params", Quantization),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        ("allocation", c_void_p),
        ("name", c_void_p),
        ("delegate", c_void_p),
        ("buffer_handle", c_int),
        ("data_is_stale", c_bool),
        ("is_variable", c_bool),
        ("quantization_type", c_int),
        ("quantization_params", c_void_p),
        ("sparsity", c_void_p),
        ("dims_signature", c_void_p),
    ]


class Node(Structure):
    """TfLiteNode, up to what the kernel's `init` returned."""

    _fields_ = [
        ("inputs", c_void_p),
        ("outputs", c_void_p),
        ("intermediates", c_void_p),
        ("temporaries", c_void_p),
        ("user_data", c_void_p),
    ]


class Context(Structure):
    """TfLiteContext, up to the last function that is called."""

    _fields_ = [
        ("tensors_size", c_size_t),
        ("GetExecutionPlan", c_void_p),
        ("tensors", c_void_p),
        ("impl", c_void_p),
        ("ResizeTensor", c_void_p),
        ("ReportError", c_void_p),
        ("AddTensors", c_void_p),
        ("GetNodeAndRegistration", c_void_p),
        ("ReplaceNodeSubsetsWithDelegateKernels", c_void_p),
    ]


CALLED = (
    *("GetExecutionPlan", "ResizeTensor", "ReportError"),
    *("GetNodeAndRegistration", "ReplaceNodeSubsetsWithDelegateKernels"),
)
"""The functions of a context that the delegate calls."""


class DelegateParams(Structure):
    """TfLiteDelegateParams: a partition."""

    _fields_ = [("delegate", c_void_p), ("nodes", c_void_p), ("inputs", c_void_p), ("outputs", c_void_p)]


PREPARE_GRAPH = CFUNCTYPE(c_int, c_void_p, c_void_p)
INIT = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
FREE = CFUNCTYPE(None, c_void_p, c_void_p)
KERNEL = CFUNCTYPE(c_int, c_void_p, c_void_p)


class Registration(Structure):
    """TfLiteRegistration. It is passed by value: on every ABI the zeros behind it are harmless, and serve as the fields
    of a later version.
    """

    _fields_ = [
        ("init", INIT),
        ("free", FREE),
        ("prepare", KERNEL),
        ("invoke", KERNEL),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int),
        ("registration_external", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
        ("spare", c_char * _SPARE),
    ]


class ReadRegistration(Structure):
    """The fields of TfLiteRegistration that are read; LiteRT may have more behind them."""

    _fields_ = [
        ("init", c_void_p),
        ("free", c_void_p),
        ("prepare", c_void_p),
        ("invoke", c_void_p),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_void_p),
        ("version", c_int),
    ]


class NativeDelegate(Structure):
    """TfLiteDelegate. `data` is the number of the delegate in `npusim.litert.callbacks`."""

    _fields_ = [
        ("data", c_void_p),
        ("Prepare", PREPARE_GRAPH),
        ("CopyFromBufferHandle", c_void_p),
        ("CopyToBufferHandle", c_void_p),
        ("FreeBufferHandle", c_void_p),
        ("flags", c_int64),
        ("opaque_delegate_builder", c_void_p),
        ("spare", c_char * _SPARE),
    ]


GET_EXECUTION_PLAN = CFUNCTYPE(c_int, c_void_p, c_void_p)
RESIZE_TENSOR = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
REPORT_ERROR = CFUNCTYPE(None, c_void_p, c_char_p)
GET_NODE = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_void_p)
REPLACE_NODES = CFUNCTYPE(c_int, c_void_p, Registration, c_void_p, c_void_p)
