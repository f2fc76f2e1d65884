"""Operations of ONNX files that npusim lacks: timed if asked for, and refused where their results have no size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import FormatError, GraphError, NpusimError

from .models import written

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
helper = onnx.helper
FLOAT, INT64, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING

TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_ids": [0, 0],
    "class_weights": [1.0, 0.0],
}


def floats(name: str, *sizes: int | str | None) -> Any:
    return helper.make_tensor_value_info(name, FLOAT, sizes)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: int = 0, **opsets: int) -> Any:
    constants = [onnx.numpy_helper.from_array(np.ones((8, weights), np.float32), "w")] if weights else []
    graph = helper.make_graph(nodes, "foreign", inputs, outputs, constants)
    domains = {"standard": "", "microsoft": "com.microsoft", "trees": "ai.onnx.ml"}
    imports = [helper.make_opsetid(domains[name], version) for name, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def node(operation: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> Any:
    return helper.make_node(
        operation, inputs.split(), outputs.split(), domain=domain, name=operation.lower(), **attributes
    )


def classifier(label: Any, *more: Any, **labels: Any) -> Any:
    """A tree with a batch that is open."""
    tree = node("TreeEnsembleClassifier", "x", "label p", "ai.onnx.ml", **TREE, **labels)
    outputs = [each for each in (label, floats("p", None, 2)) if each is not None]
    return model([tree, *more], [floats("x", None, 3)], outputs, trees=3, standard=17)


MODELS = {
    "ImageScaler": model(
        [node("ImageScaler", "x", "t", bias=[1.0, 2.0, 3.0], scale=0.5), node("Relu", "t", "y")],
        [floats("x", 1, 3, 8, 8)], [floats("y", 1, 3, 8, 8)], standard=8,
    ),
    "com.microsoft.GemmFastGelu": model(
        [node("GemmFastGelu", "x w", "t", "com.microsoft"), node("Relu", "t", "y")],
        [floats("x", 2, 8)], [floats("y", 2, 4)], weights=4, standard=17, microsoft=1,
    ),
    "com.microsoft.DecoderMaskedMultiHeadAttention": model(
        [node("DecoderMaskedMultiHeadAttention", "q k v", "y", "com.microsoft", num_heads=2)],
        [floats(name, 1, 1, 16) for name in "qkv"], [floats("y", 1, 1, 16)], standard=17, microsoft=1,
    ),
    "ai.onnx.ml.TreeEnsembleClassifier": classifier(
        helper.make_tensor_value_info("label", INT64, [None]), classlabels_int64s=[0, 1]
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*which the file leaves open")
@pytest.mark.parametrize("name", MODELS)
def test_they_are_named_and_timed_if_asked_for(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, MODELS[name])
    with pytest.raises(GraphError) as fault:
        npusim.run(path)
    assert str(fault.value) == (
        f'model: 1 operator is not known to npusim: ONNX "{name}" (1); '
        "npusim run --unknown host times them as host layers"
    )
    result = npusim.run(path, unknown="host")
    assert result.program.unknown_operators == {f'ONNX "{name}"': 1}
    assert not result.outputs


def test_a_result_is_as_large_as_the_file_says(tmp_path: Path) -> None:
    made = model(
        [node("Mystery", "x", "t", "com.microsoft"), node("Relu", "t", "y")],
        [floats("x", "N", 8)], [floats("y", "N", 5)], standard=17, microsoft=1,
    )  # fmt: skip
    path = written(tmp_path, made)
    with pytest.raises(GraphError, match=r'once the file says type and shape of "t" \(value_info\)$'):
        npusim.load(path, {"N": 3})
    made.graph.value_info.append(floats("t", "N", 5))
    graph = npusim.load(written(tmp_path, made), {"N": 3})
    assert [tensor.type.shape for tensor in graph.tensors if tensor.name == "t"] == [(3, 5)]


@pytest.mark.filterwarnings("ignore:.*which the file leaves open")
def test_labels_that_are_words_are_left_out(tmp_path: Path) -> None:
    words = helper.make_tensor_value_info("label", STRING, [None])
    path = written(tmp_path, classifier(words, classlabels_strings=["a", "b"]))
    with pytest.raises(
        GraphError, match=r'result "label" has elements of type string, which npusim lacks; let the'
    ):
        npusim.load(path)
    onnx.utils.extract_model(path, tmp_path / "less.onnx", ["x"], ["p"])
    result = npusim.run(tmp_path / "less.onnx", unknown="host")
    assert result.cycles > 0
    (note,) = [note for note in result.notes if "first operand" in note]
    assert note.startswith(
        'result "p" of node "treeensembleclassifier" (ai.onnx.ml.TreeEnsembleClassifier) has a first'
    )
    assert "taken to be 1, that of the first operand" in note


def test_a_list_of_maps_is_no_tensor(tmp_path: Path) -> None:
    maps = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    made = classifier(None, node("ZipMap", "p", "z", "ai.onnx.ml"), classlabels_int64s=[0, 1])
    made.graph.output.append(helper.make_value_info("z", helper.make_sequence_type_proto(maps)))
    with pytest.raises(GraphError, match="let the model end with its input"):
        npusim.load(written(tmp_path, made), {"x": (1, 3)})


@pytest.mark.parametrize("unknown", [None, "host"])
def test_a_compiled_file_asks_for_the_original(tmp_path: Path, unknown: str | None) -> None:
    context = node("EPContext", "x", "y", "com.microsoft", embed_mode=1, ep_cache_context="abc")
    path = written(tmp_path, model([context], [floats("x", 4)], [floats("y", 4)], standard=17, microsoft=1))
    with pytest.raises(FormatError, match=r"by ONNX Runtime; give the original$"):
        npusim.run(path, unknown=unknown)


def test_verify_says_where_they_are_timed(tmp_path: Path) -> None:
    from npusim.verification.verification import verify

    with pytest.raises(NpusimError, match="npusim run --unknown host times them"):
        verify(written(tmp_path, MODELS["ImageScaler"]))
