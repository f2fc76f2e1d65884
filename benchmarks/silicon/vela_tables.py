"""What Vela 5.2.0 says of the networks in ../shared on four sizes of the Ethos-U55."""

from __future__ import annotations

from benchmarks import peers


def network_rows() -> list[dict[str, str]]:
    """One row for each network and size. Raises `peers.Missing`."""
    return peers.table("reference", "vela_u55.csv")


def layer_rows() -> list[dict[str, str]]:
    """One row for each operator. Raises `peers.Missing`."""
    return peers.table("reference", "vela_u55_layers.csv")
