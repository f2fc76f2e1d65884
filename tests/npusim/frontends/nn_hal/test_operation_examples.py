"""The models of the NNAPI examples keep the rules of the operation table, and become graphs."""

from __future__ import annotations

import pytest

from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.model_check import check_model
from tests.npusim.frontends.nn_hal.examples import FOLDER, VERSIONS, examples, model_of

needs_examples = pytest.mark.skipif(
    not FOLDER.exists(), reason="no ../shared/nnapi_examples beside the checkout"
)


@pytest.mark.slow
@needs_examples
@pytest.mark.parametrize("version", VERSIONS)
def test_models_keep_the_rules(version: str) -> None:
    refused = []
    for example in examples(version):
        found = check_model(model_of(example))
        if isinstance(found, Fault) and not example["expectFailure"]:
            refused.append(f"{example['test']}: {found.message}")
    assert not refused
