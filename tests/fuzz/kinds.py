"""The kinds of fuzzing, by name."""

from __future__ import annotations

from importlib.util import find_spec

from . import (
    caches,
    graphs,
    hal_models,
    hardware_files,
    models,
    nnef_documents,
    output_stages,
    programs,
    space_files,
    study_lines,
)
from .harness import Kind

KINDS: dict[str, Kind] = {
    "models": models.KIND,
    "graphs": graphs.KIND,
    "hal": hal_models.KIND,
    "nnef": nnef_documents.KIND,
    "programs": programs.KIND,
    "stages": output_stages.KIND,
    "caches": caches.KIND,
    "hardware": hardware_files.KIND,
    "spaces": space_files.KIND,
    "studies": study_lines.KIND,
}

if find_spec("onnx") and find_spec("onnxruntime"):
    from . import onnx_models

    KINDS["onnx"] = onnx_models.KIND
