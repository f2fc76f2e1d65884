"""System files: the cores that they describe, and the message of each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.system_file import MOST_CORES, is_system, system, system_sources

TWO = 'name = "two"\n[[core]]\nhardware = "edge-128"\ncount = 2\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "system.toml"
    path.write_text(text)
    return path


def test_cores_of_presets_and_of_files_beside_the_system(tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text('extends = "edge-128"\nname = "chip"\nclock_mhz = 250\n')
    path = written(tmp_path, TWO + '[[core]]\nhardware = "chip.toml"\n')
    found = system(path)
    edge = hardware("edge-128")
    assert (found.name, found.cores[:2], found.cores[2].clock_mhz) == ("two", (edge, edge), 250.0)
    assert found.distinct() == {edge: [0, 1], found.cores[2]: [2]}
    assert is_system(str(path))
    assert not is_system(str(tmp_path / "chip.toml"))
    assert not is_system("edge-128")
    assert system_sources(path) == (path, tmp_path / "chip.toml")


def test_a_system_is_no_hardware(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    with pytest.raises(HardwareError, match=r"is a system file, .* npusim run MODEL --system FILE$"):
        hardware(path)


def test_a_dram_of_two_types(tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text(
        'extends = "edge-128"\nname = "chip"\n[technology]\ndram = "lpddr4"\n'
    )
    with pytest.raises(HardwareError) as raised:
        system(written(tmp_path, TWO + '[[core]]\nhardware = "chip.toml"\n'))
    assert str(raised.value).endswith(
        "edge-128 and chip differ in technology.dram, which cores share; "
        "extend one of them in a file with the values of the other"
    )


def test_a_dram_that_all_cores_have(tmp_path: Path) -> None:
    text = TWO + '[[core]]\nhardware = "edge-256"\n[dram]\nbandwidth_gb_per_s = 3.0\n'
    assert [core.dram.bandwidth_gb_per_s for core in system(written(tmp_path, text)).cores] == [3.0] * 3


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('name = "x"\n', "1 fault: core: null is not a list of tables [[core]], one at least"),
        ('name = "x"\ncore = 3\n', "1 fault: core: 3 is not a list of tables [[core]], one at least"),
        ("[[core]]\nhardware = 'edge-128'\n", "1 fault: name: is missing, must be text of 1 to 64 characters"),
        (TWO + "cout = 2\n", "1 fault: core.0.cout: unknown key, did you mean count?"),
        (TWO.replace("2", "0", 2).replace("edge-108", "edge-128"), "1 fault: core.0.count: 0 is not a whole number"),
        ('name = "x"\nlinks = 1\n[[core]]\nhardware = "edge-128"\n', "1 fault: links: unknown key, known here: name"),
        (TWO.replace("edge-128", "edge-12"), "1 fault: core.0.hardware: no hardware is named"),
        (TWO + "[dram]\nbanks = 3\n", "1 fault: core.0.hardware: "),
        (
            TWO + '[[core]]\nhardware = "mobile-1024"\n',
            "1 fault: core: edge-128 and mobile-1024 differ in dram.bandwidth_gb_per_s, dram.latency_ns, "
            "dram.row_bytes, dram.banks, dram.burst_bytes, dram.outstanding_requests, dram.size_mib, "
            "technology.dram, which cores share; a table [dram] in this file with these keys is that of all cores",
        ),
        (
            TWO + TWO.partition("\n")[2].replace("2\n", f"{MOST_CORES - 1}\n"),
            f"1 fault: core: {MOST_CORES + 1} cores, must be at most {MOST_CORES}",
        ),
    ],
)  # fmt: skip
def test_what_a_system_file_may_not_say(tmp_path: Path, text: str, fault: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(HardwareError) as raised:
        system(path)
    assert str(raised.value).startswith(f"{path}: {fault}")
