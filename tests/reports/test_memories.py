"""Reports of machines with further memories name them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from npusim.cli.typer_app import app

CHIP = """
extends = "edge-128"
[[memory]]
name = "near"
kind = "sram"
holds = ["constants", "code", "io", "activations"]
size_kib = 4096
bandwidth_gb_per_s = 0.1
"""


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_page_and_summary_name_the_memories(tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text(CHIP)
    folder = tmp_path / "report"
    arguments = [
        "run",
        "ds_cnn",
        "--timing-only",
        "--hw",
        str(tmp_path / "chip.toml"),
        "--report",
        str(folder),
    ]
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 0, said.output
    for text in (
        "scratchpad 2 MiB, near 0.1 GB/s",
        "set by near bandwidth",
        "near traffic",
    ):
        assert text in said.output
    # A DRAM that holds nothing is not there.
    assert "  DRAM traffic" not in said.output
    page = (folder / "report.html").read_text("utf-8")
    assert '"label": "near"' in page or ">near<" in page
