"""The result of a language model that reads a prompt and generates tokens: time, energy and bytes of each token."""

from __future__ import annotations

from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.run import SCHEMA_VERSION, RunResult


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive tokens that one program generates.

    tokens: number of tokens, of each sequence.
    past:   tokens whose keys and values the program reads; fewer are there for all but the last token.
    result: one run of the program.
    """

    tokens: int
    past: int
    result: RunResult


@dataclass(frozen=True, slots=True)
class Generation:
    """One prompt, and the tokens that follow it.

    parameters:  weights, biases and scales of the model.
    cache_bytes: bytes of the keys and values of one token in all layers.
    prompt, new, batch: tokens of the prompt, generated tokens, and sequences at once.
    bucket:      a program reads the keys and values of a multiple of so many tokens.
    first:       the run that reads the prompt and gives the first new token.
    stretches:   the further tokens, in order.
    """

    model: str
    parameters: int
    cache_bytes: int
    prompt: int
    new: int
    batch: int
    bucket: int
    first: RunResult
    stretches: tuple[Stretch, ...]

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.first.hardware

    @property
    def latency_ms(self) -> float:
        """Time from the prompt to the last token."""
        return self.first.latency_ms + sum(each.tokens * each.result.latency_ms for each in self.stretches)

    @property
    def energy_uj(self) -> float:
        """Energy of prompt and tokens, of all sequences."""
        further = sum(each.tokens * each.result.energy_uj.total for each in self.stretches)
        return self.first.energy_uj.total + further

    @property
    def further(self) -> int:
        """The tokens behind the first, of each sequence."""
        return sum(each.tokens for each in self.stretches)

    @property
    def token_ms(self) -> float:
        """Mean time of a token behind the first; 0 without any."""
        return (self.latency_ms - self.first.latency_ms) / self.further if self.further else 0.0

    @property
    def token_uj(self) -> float:
        """Mean energy of a token behind the first, of one sequence; 0 without any."""
        spent = self.energy_uj - self.first.energy_uj.total
        return spent / (self.further * self.batch) if self.further else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens behind the first per second, of all sequences; 0 without any."""
        return 1e3 * self.batch / self.token_ms if self.further else 0.0

    def tokens(self) -> list[dict[str, Any]]:
        """Return every token behind the first: its position, time, energy and DRAM traffic."""
        rows: list[dict[str, Any]] = []
        for each in self.stretches:
            row = _step(each.result)
            rows += [
                {"position": self.prompt + len(rows) + number + 1, "past": each.past} | row
                for number in range(each.tokens)
            ]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the JSON of `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "npusim_version": npusim_version(),
            "model": self.model,
            "hardware": self.hardware.model_dump(mode="json"),
            "generation": {
                "parameters": self.parameters,
                "cache_bytes_per_token": self.cache_bytes,
                "prompt": self.prompt,
                "new": self.new,
                "batch": self.batch,
                "bucket": self.bucket,
                "first_token_ms": self.first.latency_ms,
                "token_ms": self.token_ms,
                "tokens_per_s": self.tokens_per_s,
                "token_uj": self.token_uj,
                "latency_ms": self.latency_ms,
                "energy_uj": self.energy_uj,
                "tokens": self.tokens(),
            },
        }


def _step(result: RunResult) -> dict[str, Any]:
    moved = result.dram_bytes
    return {
        "latency_ms": result.latency_ms,
        "energy_uj": result.energy_uj.total,
        "dram_bytes": moved.read + moved.write + moved.instructions,
    }
