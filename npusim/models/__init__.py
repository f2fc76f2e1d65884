"""The built-in models, TensorFlow Lite files that are generated or ship with the package, without a download.

`digits_cnn` is trained (see `npusim.models.digits`) and ships with the package. The others are published
topologies with random weights, for studies of latency and energy (see `npusim.models.topologies`); they are
generated on first use. Transformers are built from their sizes, without weights (`transformer`).
"""

from __future__ import annotations

import io
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.models.cache import cached

if TYPE_CHECKING:
    from npusim.frontends.transformer.sizes import TransformerConfig
    from npusim.kernels.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class BuiltinModel:
    """A built-in model. `macs` are the multiply-accumulate operations of one inference, padding included;
    `parameters` are the elements of weights and biases, with batch normalization folded into them.

    The file ships with the package, or the function of that name in `npusim.models.topologies` makes it.
    """

    name: str
    description: str
    macs: int
    parameters: int
    ships: bool = False

    def tflite(self) -> bytes:
        """Return the model as the bytes of a `.tflite` file."""
        if self.ships:
            return _package_data(f"{self.name}.tflite")
        return cached(self.name, self.generate)

    def generate(self) -> bytes:
        """Return the bytes of a model that does not ship with the package, made anew."""
        from npusim.models import topologies  # here because the file is in the cache but for the first time

        data: bytes = getattr(topologies, self.name)()
        return data


MODELS = (
    BuiltinModel("digits_cnn", "handwritten digits, 8x8, trained, with 200 test images", 232_320, 13_426,
                 ships=True),
    BuiltinModel("ds_cnn", "keyword spotting DS-CNN (MLPerf Tiny), 49x10 MFCC, random weights",
                 2_656_768, 22_604),
    BuiltinModel("resnet8", "image classification ResNet-8 (MLPerf Tiny), 32x32x3, random weights",
                 12_501_632, 77_706),
    BuiltinModel("vww_mobilenet", "visual wake words MobileNet v1 0.25 (MLPerf Tiny), 96x96x3, random weights",
                 7_489_664, 210_850),
    BuiltinModel("mobilenet_v1", "MobileNet v1 1.0, 224x224x3, random weights",
                 568_740_352, 4_221_032),
    BuiltinModel("mobilenet_v2", "MobileNet v2 1.0, 224x224x3, random weights",
                 300_774_272, 3_487_816),
    BuiltinModel("resnet18", "ResNet-18, 224x224x3, random weights",
                 1_814_073_344, 11_684_712),
    BuiltinModel("resnet50", "ResNet-50 v1.5, 224x224x3, random weights",
                 4_089_184_256, 25_530_472),
)  # fmt: skip


def names() -> tuple[str, ...]:
    """Return the names of the built-in models."""
    return tuple(model.name for model in MODELS)


def resolve(name: str) -> BuiltinModel | None:
    """Return the built-in model of that name, or None."""
    return next((model for model in MODELS if model.name == name), None)


def nearest(name: str) -> str | None:
    """Return the name of a built-in model that someone who typed `name` may have meant, or None."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name.lower().replace("-", "_"), names(), n=1)), None)


def path_or_bytes(name: str) -> bytes:
    """Return the bytes of the `.tflite` file of a built-in model; `name` must be one of `names()`."""
    model = resolve(name)
    if model is None:
        raise KeyError(name)
    return model.tflite()


def transformer(
    config: Mapping[str, Any] | str | Path | TransformerConfig,
    *,
    tokens: int | None = None,
    past: int = 0,
    batch: int = 1,
    source: int | None = None,
    weights: str | None = None,
    activations: str | None = None,
) -> Graph:
    """Build the network of one step of a transformer, without weights, for `npusim.compile` and all that follows.

    config:  the values of a Hugging Face `config.json`, its path, that of a GGUF file, or the name of a published model
             (`npusim models`).
    tokens:  new tokens of each sequence, by default 128, and 1 of a decoder behind an encoder, where 0 stands for the
             encoder alone; an image has as many as it has patches, and one.
    past:    earlier tokens of each sequence, whose keys and values are inputs.
    batch:   number of sequences.
    source:  tokens of each sequence that the encoder of a T5 reads, 128 by default.
    weights: how the weights of products are stored, such as "int4-32" or "float16"; by default as the model says, else
             int8.
    activations: the element type of activations, keys and values: "int8", or "float16", which they are by default
             beside weights in floats.

    Inputs are the tokens, int32 [batch, tokens], and for past > 0 the keys and values of every layer, [batch, key
    heads, past, elements of a head]. An image is given as [batch * patches, elements of a patch]. Outputs are the
    scores of the next token, [batch, vocabulary], then the keys and values of the new tokens. BERT gives the vectors of
    all tokens, [batch * tokens, elements], and the pooled first one, [batch, elements]. All but the tokens have the
    type of activations.

    With past = 0 the encoder of a T5 or Whisper runs first. It reads tokens, int32 [batch, source], or a spectrum of
    sound, [batch, 1, frames, bands]. With past > 0 the keys and values of its results are inputs, too.

    Only the sizes of weights are known: the graph can be compiled and timed, but its outputs have no values. Raises
    FormatError with the key at fault, GraphError for sizes that the model does not take, and NpusimError for a model
    or a format of weights that npusim does not know, and for activations that do not go with the weights.
    """
    from npusim.frontends import frontend
    from npusim.frontends.transformer.published import configured

    transformer_sizes = configured(config, weights, activations)
    sizes = {"batch": batch}
    sizes |= {} if tokens is None else {"tokens": tokens}
    sizes |= {"past": past} if past or transformer_sizes.causal else {}
    sizes |= {} if source is None else {"source": source}
    return frontend.read_config(transformer_sizes, sizes)


def digits_test() -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Return the test set of digits_cnn, never used in training: inputs [200, 8, 8, 1] as int8, and labels."""
    with np.load(io.BytesIO(_package_data("digits_test.npz"))) as data:
        return data["images"], data["labels"]


def _package_data(file_name: str) -> bytes:
    data = pkgutil.get_data(__name__, file_name)
    assert data is not None
    return data
