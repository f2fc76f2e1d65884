"""Statements about the error of latency and energy, for every place that shows one as a headline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from npusim.isa.engines.mac_array import MOST_BITS
from npusim.isa.hardware.agreement import QUANTITIES, UNSTATED, Agreement, Standing, errors, of_core, percent
from npusim.isa.hardware.hardware import Host
from npusim.isa.hardware.units import Unit
from npusim.reports.words.quantities import plural

if TYPE_CHECKING:
    from npusim.isa.program.program import Program


def sentence(latency: str, energy: str) -> str:
    """Return the claims on latency and energy in one line; equal claims are given once."""
    return latency if latency == energy else f"latency: {latency}; energy: {energy}"


def of_standing(standing: Standing) -> str:
    """Return the claims on latency and energy of a hardware in one line."""
    return sentence(standing.words("latency"), standing.words("energy"))


def of_cpu(host: Host) -> str:
    """Return what is known about the accuracy of the CPU time in `PerformanceInfo`; empty if nothing is.

    The clock is that of the measured board, which may differ from the host's.
    """
    known = of_core(host.core)
    if known is None:
        return ""
    claim, clock = known
    return f"CPU model at {clock:g} MHz: {percent(claim.error)} off, at worst {percent(claim.worst)}"


def of_json(values: Mapping[str, Any]) -> str:
    """Return the claims in the JSON of a run; empty if an old npusim wrote none."""
    claims = values.get("agreement")
    return sentence(claims["latency"]["words"], claims["energy"]["words"]) if claims else ""


def details(claim: Agreement) -> str:
    """Spell out an agreement: "15 rows of Vela 5.2.0's estimates, ..., latency: typical error 2.7 %, ..."."""
    parts = [errors(claim), f"bias {claim.bias:.3f}"]
    parts += [] if claim.rank is None else [f"rank {claim.rank:.3f}"]
    aside = claim.held_out
    apart = f"; {aside.rows} of them held out: {errors(aside)}" if aside else ""
    ranges = ", ".join(
        f"{key} {least:g}" if least == most else f"{key} from {least:g} to {most:g}"
        for key, (least, most) in claim.settings.items()
    )
    rows_with = f"; rows with {ranges}" if ranges else ""
    quantity = "" if claim.quantity in claim.referee else f", {claim.quantity}"
    rows = f"{plural(claim.rows, 'row')} of {claim.referee}{quantity}"
    return f"{rows}: {', '.join(parts)}{apart}{rows_with}"


def paragraph(standing: Standing) -> Iterator[str]:
    """Yield lines with everything that is known about the errors of a hardware."""
    if any(standing.claim(quantity) for quantity in QUANTITIES):
        yield f"{standing.preset} agrees with"
        yield from (f"- {details(agreement)}" for agreement in standing.agreements)
        yield from (
            f"{quantity.capitalize()}: {standing.words(quantity)}."
            for quantity in QUANTITIES
            if standing.claim(quantity) is None
        )
        yield "docs/silicon.md has the rows. Of a machine with another key no error is known."
    elif standing.idealised:
        yield f"{standing.preset} is an idealised array, always full, and named after no chip: {UNSTATED}."
        yield "Chips of its size are slower, see docs/silicon.md."
    else:
        keys = ", ".join(path for path, _ in standing.changed)
        yield f"{standing.basis[0].upper()}{standing.basis[1:]}: {UNSTATED}."
        yield f"Changed: {keys}."


ERRORS = ("latency error", "energy error")


def in_columns(standing: Standing) -> tuple[str, str]:
    """Return the typical errors of a preset, for `ERRORS`: "1.7 % (Vela's estimate)", or "4.7 %" of a measured chip."""
    if standing.idealised:
        return "idealised array", ""
    latency, energy = (_error(claim) if claim else "not known" for claim in map(standing.claim, QUANTITIES))
    return latency, energy


def _error(claim: Agreement) -> str:
    tool = claim.estimates_of
    return f"{percent(claim.error)} ({tool}'s estimate)" if tool else percent(claim.error)


def caveats(program: Program) -> Iterator[str]:
    """Yield a sentence or two about each reason why the numbers of a program are estimates."""
    if program.unknown_operators:
        yield _unknown(program.unknown_operators)
    if program.timing_only:
        yield (
            "ESTIMATE: constants are known by their size only. Weights are loaded as they are: how far they would pack "
            "depends on their values. There are no outputs."
        )
    array = program.hardware.mac_array
    if array.few_bits and any(layer.unit == Unit.MAC.kind.name for layer in program.layers):
        yield (
            f"ESTIMATE: in time, energy, traffic and room a constant weight has {array.weight_bits} bits "
            f"(mac_array.weight_bits). Results are those of the model's own weights, of {MOST_BITS} bits."
        )


def _unknown(operators: Mapping[str, int]) -> str:
    """Name the operators that npusim lacks, and the effect on the numbers."""
    named = ", ".join(f"{op} ({count})" for op, count in operators.items())
    counted = "1 operator is" if len(operators) == 1 else f"{len(operators)} operators are"
    return (
        f"ESTIMATE: {counted} not known to npusim: {named}. Each is timed as a host layer by the bytes that it reads "
        "and writes; what it computes is not counted, and there are no outputs."
    )
