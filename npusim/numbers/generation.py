"""The result of timing a language model: time, energy and DRAM traffic of a prompt and of each token after it."""

from __future__ import annotations

from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.run import SCHEMA_VERSION, RunResult


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """Consecutive tokens that one program generates.

    tokens: number of tokens of each sequence.
    past:   number of tokens whose keys and values the program reads. Earlier tokens of the group have fewer.
    result: the run of the program for one token; it is the same for each.
    """

    tokens: int
    past: int
    result: RunResult


@dataclass(frozen=True, slots=True)
class Generation:
    """The times of a prompt and of the tokens that are generated after it.

    parameters:  number of weights, biases and scales of the model.
    weights:     how the weights of products are stored.
    cache_bytes: bytes of the keys and values of one token in all layers.
    prompt, new, batch: number of tokens in the prompt, of generated tokens, and of sequences computed together.
    bucket:      a program reads the keys and values of a multiple of `bucket` tokens.
    source:      tokens of each sequence that an encoder reads; 0 without one.
    started:     tokens of each sequence that the first run computes: the prompt, or one if an encoder reads the prompt.
    first:       the run that reads the prompt and gives the first token.
    groups:      the tokens after the first, in order.
    """

    model: str
    parameters: int
    weights: str
    cache_bytes: int
    prompt: int
    new: int
    batch: int
    bucket: int
    source: int
    started: int
    first: RunResult
    groups: tuple[TokenGroup, ...]

    @property
    def hardware(self) -> Hardware:
        """The hardware of all runs."""
        return self.first.hardware

    @property
    def kept_bytes(self) -> int:
        """The bytes of the keys and values of all sequences at the end. The last token is not read, so it has none."""
        return self.cache_bytes * self.batch * (self.started + self.new - 1 + self.source)

    @property
    def latency_ms(self) -> float:
        """The time from the start of the prompt to the last token, in ms."""
        return self.first.latency_ms + sum(group.tokens * group.result.latency_ms for group in self.groups)

    @property
    def energy_uj(self) -> float:
        """The energy of the prompt and of all tokens, of all sequences, in uJ."""
        further = sum(group.tokens * group.result.energy_uj.total for group in self.groups)
        return self.first.energy_uj.total + further

    @property
    def further(self) -> int:
        """The number of tokens after the first, of each sequence."""
        return sum(group.tokens for group in self.groups)

    @property
    def token_ms(self) -> float:
        """The mean time of a token after the first, in ms; 0 if there is none."""
        return (self.latency_ms - self.first.latency_ms) / self.further if self.further else 0.0

    @property
    def token_uj(self) -> float:
        """The mean energy of a token after the first, of one sequence, in uJ; 0 if there is none."""
        spent = self.energy_uj - self.first.energy_uj.total
        return spent / (self.further * self.batch) if self.further else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens after the first per second, of all sequences; 0 if there is none."""
        return 1e3 * self.batch / self.token_ms if self.further else 0.0

    def tokens(self) -> list[dict[str, Any]]:
        """Return position, time, energy and DRAM traffic of each token after the first."""
        rows: list[dict[str, Any]] = []
        for group in self.groups:
            result = group.result
            row = {
                "latency_ms": result.latency_ms,
                "energy_uj": result.energy_uj.total,
                "dram_bytes": result.dram_bytes.total,
            }
            # The first run gives the token at started + 1.
            rows += [
                {"position": self.started + 2 + len(rows) + number, "past": group.past} | row
                for number in range(group.tokens)
            ]
        return rows

    def equal_layers(self) -> tuple[str, ...]:
        """Return the sentence about equal layers, once if it is the same for all programs, else that of each.

        Nothing if no program has any.
        """
        layers = [
            run.execution.equal_layers for run in (self.first, *(group.result for group in self.groups))
        ]
        return () if not any(layers) else tuple(layers[:1] if len(set(layers)) == 1 else layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the JSON of `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "npusim_version": npusim_version(),
            "model": self.model,
            "hardware": self.hardware.model_dump(mode="json"),
            "generation": {
                "parameters": self.parameters,
                "weights": self.weights,
                "cache_bytes_per_token": self.cache_bytes,
                "prompt": self.prompt,
                "source": self.source,
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
                **({"equal_layers": list(equal)} if (equal := self.equal_layers()) else {}),
            },
        }
