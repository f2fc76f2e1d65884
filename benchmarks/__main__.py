"""Run the benchmarks and print what was measured beside its limit.

    python -m benchmarks              all of them
    python -m benchmarks tiny         one
    python -m benchmarks profile      where the time of a run goes
    python -m benchmarks reach        the table of goals: CPU time beside the peers (--rounds 9; --only warm start ...)
    python -m benchmarks slopes       time and memory against operators, weights and layers (--only operators ...)
    python -m benchmarks silicon      presets beside the chips that they are named after (--write: docs/silicon.md,
                                      its figure, and what the product says of its errors)

Exit status: 0 all limits hold (or were skipped for a missing peer), 1 one is broken, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.limits import BENCHMARKS
from benchmarks.measure import BenchmarkError, Row
from benchmarks.peers import Missing
from benchmarks.reach import MEASURES as REACH
from benchmarks.reach import reach
from benchmarks.slopes import LINES, slopes

WIDTH = 120


def main() -> int:
    """Run what the command line names; returns the exit status."""
    parser = _parser()
    options = parser.parse_args()
    parts: Sequence[str] = {"reach": tuple(REACH), "slopes": tuple(LINES)}.get(options.name, ())
    if other := [name for name in options.only if name not in parts]:
        where = f"may be {', '.join(parts)}" if parts else "is for reach and slopes"
        parser.error(f"--only: {', '.join(other)}: {where}")
    if options.name == "profile":
        from benchmarks.profile import profile

        profile(options.model, options.hw)
        return 0
    if options.name == "reach":
        return reach(options.rounds, options.only)
    if options.name == "slopes":
        return slopes(options.rounds, options.only)
    if options.name == "silicon":
        from benchmarks.silicon.run import silicon

        return silicon(options.write)
    rows: list[Row] = []
    skipped: list[str] = []
    faults: list[str] = []
    for name in [options.name] if options.name else BENCHMARKS:
        print(f"{name}: {(BENCHMARKS[name].__doc__ or '').strip()}", file=sys.stderr, flush=True)
        try:
            rows += BENCHMARKS[name](options.rounds)
        except Missing as reason:
            skipped.append(f"{name}: skipped: {reason}")
        except BenchmarkError as fault:
            faults.append(f"{name}: failed: {fault}")
    _print(rows, [*skipped, *faults], options.rounds)
    return 1 if faults or not all(row.holds for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure npusim beside its peers."
    )
    parser.add_argument(
        "name",
        nargs="?",
        choices=[*BENCHMARKS, "profile", "reach", "slopes", "silicon"],
        help="one of them [default: all]",
    )
    parser.add_argument("--rounds", type=_positive, default=5, metavar="N", help="measurements of each [5]")
    parser.add_argument(
        "--model", default="mobilenet_v2", help="what profile runs: a file or a built-in model"
    )
    parser.add_argument("--hw", default="edge-128", help="what profile runs it on: a preset or a file")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="PART",
        help=f"some parts of the table; reach: {', '.join(REACH)}; slopes: {', '.join(LINES)}",
    )
    parser.add_argument(
        "--write", action="store_true", help="silicon: write docs/silicon.md and what is read off it"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def _print(rows: list[Row], remarks: list[str], rounds: int) -> None:
    from rich.console import Console
    from rich.table import Table

    # Lines are not wrapped where nobody's screen ends: in a file or a log.
    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    if rows:
        table = Table(title=f"medians of {rounds} rounds, in turns", title_justify="left", box=None)
        table.add_column("what", no_wrap=True)
        table.add_column("model", overflow="fold")
        for header in ("ours", "peer", "ratio", "limit", "CPU time ratio", "verdict"):
            table.add_column(header, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*_cells(row), style=None if row.holds else "bold red")
        console.print(table)
    for remark in remarks:
        console.print(remark, soft_wrap=True)


def _cells(row: Row) -> tuple[str, ...]:
    limit = "" if row.limit is None else f"{row.limit:.3g} {row.unit}".rstrip()
    return (
        row.what,
        row.model,
        row.ours,
        row.peer,
        f"{row.value:.2f}" if row.peer else "",
        limit,
        f"{row.cpu_ratio:.2f}" if row.cpu_ratio is not None else "",
        "" if row.limit is None else "holds" if row.holds else "BROKEN",
    )


if __name__ == "__main__":
    sys.exit(main())
