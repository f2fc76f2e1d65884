"""How the numbers of a report are made, and which document says more."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """How a number is made, and the document that says more: its file and its title."""

    number: str
    how: str
    document: str
    title: str


METHODS: tuple[Method, ...] = (
    Method(
        "Latency, cycles",
        "The compiled program runs instruction by instruction on a machine of events: front end, queues, "
        "completion counts, DMA channels, one DRAM port. Occupancies are closed forms, checked against a "
        "register-transfer description. Latency is cycles over clock; the driver call is not part of it.",
        "timing.md",
        "Timing",
    ),
    Method(
        "Lower bound, lost cycles",
        "Four times, each as if one resource worked alone and never waited; the largest is the bound. Every "
        "cycle beyond it is booked on one cause; bound and losses add up to the cycles exactly.",
        "losses.md",
        "Where the cycles go",
    ),
    Method(
        "Energy",
        "Actions that the units counted, times a price list for the process node, plus standing power times "
        "time. Absolute values within a factor of two; ratios between configurations of one node within 20 to "
        "30 %.",
        "energy.md",
        "Energy",
    ),
    Method(
        "Error of latency and energy",
        "Presets that are named after chips were run beside what was measured on them, those of the Ethos-U55 beside "
        "what Vela estimates. The typical error is the "
        "geometric mean over all networks, no bound; it holds for hardware with all keys of such a preset, and for "
        "runs of which the host takes a tenth of the time at most, or which a host computes alone.",
        "silicon.md",
        "Chips that exist",
    ),
    Method(
        "Power over time",
        "The energy that a layer causes in a component, spread over its instructions on the units that cause "
        "it, and averaged over 10 us; the integral is the energy. A peak is the highest average over any window of a "
        "fixed time, 10 us or 1 ms, inferences one after the other; for a shorter run it is the average.",
        "energy.md",
        "Energy",
    ),
    Method(
        "PerformanceInfo",
        "As the Android NN HAL defines it: time, and energy, of the NPU with its driver call over those of the "
        "CPU for the same network; smaller is better. The CPU model meets measured networks within 35 %.",
        "timing.md",
        "Timing",
    ),
    Method(
        "MAC utilization",
        "Multiply-accumulates of the layers on the MAC array over cycles times multipliers.",
        "timing.md",
        "Timing",
    ),
    Method(
        "DRAM traffic",
        "Whole bursts through the DRAM port, as the machine moved them: data of the instructions, and the "
        "instructions themselves.",
        "timing.md",
        "Timing",
    ),
    Method(
        "Scratchpad in use",
        "Buffers from the start of their first instruction to the end of their last. The peak of the program is "
        "taken in program order, where neighbours overlap by an instruction, so it may be a little higher.",
        "architecture.md",
        "Architecture",
    ),
    Method(
        "Hardware",
        "Every parameter that the simulation knows, with its meaning.",
        "hardware.md",
        "Hardware files",
    ),
)
