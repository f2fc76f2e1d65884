"""How a hardware stands to presets that are named after chips: who has their error, and who has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.isa.hardware import agreement as module
from npusim.isa.hardware.agreement import QUANTITIES, Agreement, HeldOut, agreements, standing
from npusim.isa.hardware.file import change, hardware, list_presets, to_toml

CHIP = "ethos-u55-128"


def claimed(name: str) -> Agreement:
    """The one that is quoted for the latency of a preset."""
    found = standing(hardware(name)).claim("latency")
    assert found is not None
    return found


def test_the_file_is_read_whole() -> None:
    text = module.FILE.read_text()
    assert len(agreements()) == text.count("[[agreement]]") > 0
    for each in agreements():
        assert each.quantity in QUANTITIES
        assert each.rows > 0
        assert 0 <= each.error <= each.worst
        assert 1 / (1 + each.worst) <= each.bias <= 1 + each.worst
        assert each.held_out is None or each.held_out.rows < each.rows


def test_the_words_of_a_claim() -> None:
    found = Agreement("chip", "latency", "Vela 5.2.0's estimates, a system", 15, 0.0272, 0.0712, 1.02)
    assert found.words == "typical error 2.7 %, worst 7.1 % (15 rows of Vela 5.2.0's estimates)"
    one = Agreement("chip", "energy", "a board", 1, 0.004, 0.004, 1.004)
    assert one.words == "error 0.4 % (1 row of a board)"
    assert module.errors(HeldOut(5, 0.041, 0.071)) == "typical error 4.1 %, worst 7.1 %"


def test_a_preset_has_the_first_agreement_of_its_quantity() -> None:
    """Of the referees of a preset the first one is quoted: Vela with its networks, not one network of a platform."""
    mine = [each for each in agreements() if each.preset == CHIP]
    assert len(mine) > 1
    assert claimed(CHIP) == mine[0]
    assert mine[0].referee.startswith("Vela")


def test_a_quantity_without_a_referee_has_no_error() -> None:
    """Nobody measured the energy of the Ethos-U55; the error of the latency is not that of the energy."""
    found = standing(hardware(CHIP))
    assert found.claim("energy") is None
    assert found.words("energy") == "never measured, error not known"


@pytest.mark.parametrize("name", [name for name in list_presets() if name.startswith(("edge", "mobile"))])
def test_generic_presets_are_idealised(name: str) -> None:
    found = standing(hardware(name))
    assert found.idealised
    assert [found.words(quantity) for quantity in QUANTITIES] == ["idealised array, error not known"] * 2


def test_presets_with_an_agreement_are_not_idealised() -> None:
    for name in {each.preset for each in agreements()} & set(list_presets()):
        assert not standing(hardware(name)).idealised


def test_a_changed_key_ends_the_claim() -> None:
    found = standing(change(hardware(CHIP), {"clock_mhz": 400.0}))
    assert (found.preset, found.changed) == (CHIP, (("clock_mhz", 400.0),))
    assert found.claim("latency") is None
    assert not found.idealised
    assert (
        found.words("latency") == found.words("energy") == f"based on {CHIP}, 1 key changed: error not known"
    )


def test_keys_are_compared_not_names(tmp_path: Path) -> None:
    """A file that is a preset under another name is that preset; one that has its name and another key is not."""
    file = tmp_path / "mine.toml"
    file.write_text(f'extends = "{CHIP}"\nname = "mine"\ndescription = "my own"\n')
    assert standing(hardware(file)).claim("latency") == claimed(CHIP)
    shown = to_toml(hardware(CHIP))
    assert "latency_ns = 128.0" in shown
    file.write_text(shown.replace("latency_ns = 128.0", "latency_ns = 100.0"))
    assert hardware(file).name == CHIP
    assert standing(hardware(file)).words("latency").startswith(f"based on {CHIP}, 1 key changed")


def test_the_preset_of_the_fewest_changes_counts(tmp_path: Path) -> None:
    """With rows of its own an edge-128 is an edge-64, whatever it is called."""
    file = tmp_path / "half.toml"
    rows = hardware("edge-64").mac_array.rows
    file.write_text(f'extends = "edge-128"\n[mac_array]\nrows = {rows}\n')
    found = standing(hardware(file))
    assert (found.preset, found.changed, found.idealised) == ("edge-64", (), True)


def test_keys_that_a_preset_lacks_count(tmp_path: Path) -> None:
    file = tmp_path / "more.toml"
    file.write_text(
        f'extends = "{CHIP}"\n[[memory]]\nname = "rom"\nkind = "sram"\nsize_kib = 64\nbandwidth_gb_per_s = 1.0\n'
    )
    found = standing(hardware(file))
    assert found.preset == CHIP
    assert "memory.rom.size_kib" in dict(found.changed)
    assert found.claim("latency") is None


@pytest.mark.parametrize(("bits", "claims"), [(2, False), (4, False), (5, True), (6, True), (7, True)])
def test_values_that_rows_were_measured_with_keep_the_claim(bits: int, claims: bool) -> None:
    """The networks on the GAP9 had weights of 5, 6 and 7 bits; no row says anything of 4."""
    found = standing(change(hardware("gap9"), {"mac_array.weight_bits": bits}))
    assert [found.claim(quantity) is not None for quantity in QUANTITIES] == [claims] * 2
    assert found.words("latency").startswith("typical error" if claims else "based on gap9, 1 key changed")


def test_a_covered_key_does_not_cover_others() -> None:
    both = {"mac_array.weight_bits": 6, "clock_mhz": 300.0}
    assert standing(change(hardware("gap9"), both)).claim("latency") is None


def test_a_range_covers_numbers_only() -> None:
    found = Agreement("chip", "latency", "a board", 4, 0.1, 0.2, 1.0, settings={"clock_mhz": (800.0, 1000.0)})
    assert found.covers("clock_mhz", 900)
    assert not found.covers("clock_mhz", 1001.0)
    assert not found.covers("vector.lanes", 900)
    assert not found.covers("clock_mhz", "900")
    assert not found.covers("clock_mhz", None)


def test_the_json() -> None:
    plain = standing(hardware(CHIP)).to_dict()
    assert (plain["preset"], plain["changed_keys"], plain["idealised"]) == (CHIP, [], False)
    assert plain["latency"]["error"] == claimed(CHIP).error
    assert plain["latency"]["rows"] == claimed(CHIP).rows
    assert plain["energy"] == {"words": "never measured, error not known"}
    changed = standing(change(hardware(CHIP), {"clock_mhz": 400.0})).to_dict()
    assert changed["changed_keys"] == ["clock_mhz"]
    assert set(changed["latency"]) == {"words"}


@pytest.mark.slow
def test_no_description_states_an_error() -> None:
    """Files that extend a preset inherit its description."""
    for name in list_presets():
        assert "agree" not in hardware(name).description
        assert " %" not in hardware(name).description


def test_a_machine_far_from_every_preset_names_the_nearest() -> None:
    far = change(
        hardware("edge-128"), {"mac_array.kind": "block", "clock_mhz": 400.0, "dram.bandwidth_gb_per_s": 0.7}
    )
    words = standing(far).words("latency")
    number = len(standing(far).changed)
    assert number > 8
    assert words == f"{number} keys differ from {standing(far).preset}, the nearest preset: error not known"
