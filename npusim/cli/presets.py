"""The list of the presets, `npusim hw list`, which needs no typer."""

from __future__ import annotations

from pathlib import Path

from npusim.base.console import say


def list_presets(json: Path | None = None) -> None:
    """Print the presets with their sizes and errors, and write them as JSON if a file is given."""
    from npusim.base import files
    from npusim.isa.hardware import file as hardware_file
    from npusim.isa.hardware.agreement import standing
    from npusim.numbers.area import area
    from npusim.reports.words import quantities as show
    from npusim.reports.words.claims import ERRORS, in_columns

    files.check_outputs({"--json": json}, {})
    presets = [hardware_file.hardware(name) for name in hardware_file.list_presets()]
    rows = [
        (
            preset.name,
            "-" if preset.is_host_alone else str(preset.macs_per_cycle),
            f"{preset.clock_mhz:g} MHz",
            "-" if preset.is_host_alone else show.digits(preset.tops),
            "-" if preset.is_host_alone else show.area(area(preset).total),
            f"{preset.scratchpad.size_kib} KiB",
            show.ports(preset),
            f"{preset.host.threads} x {preset.host.core}",
            f"{preset.technology.node_nm} nm",
            *in_columns(standing(preset)),
        )
        for preset in presets
    ]
    head = (
        "preset",
        "MACs/cycle",
        "clock",
        "TOPS",
        "area",
        "scratchpad",
        "memories",
        "host",
        "process",
        *ERRORS,
    )
    say(show.columns(head, rows, right=(1, 2, 3, 4, 5)))
    if json:
        from npusim.reports.run import coverage as lists

        files.write(json, files.text(lists.presets(presets)))
