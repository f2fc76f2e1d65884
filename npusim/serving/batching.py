"""Batching of a language model's requests on one machine, as a discrete-event model in whole cycles of its clock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator
from typing import Any

import simpy

from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.serving.arrivals import MOST_TOKENS, Requests
from npusim.serving.log import Log
from npusim.serving.served import CacheUse
from npusim.serving.steps import Step

BATCHINGS = ("one", "static", "continuous", "chunked")
"""How requests share the machine.

one:        each alone, from its prompt to its last token.
static:     those that wait when the machine is free become a batch, which is served until all of it has ended.
continuous: a request joins as soon as a place in the batch is free, and leaves with its last token; prompts first.
chunked:    the same, but a prompt is read in chunks, between which the others generate a token each.
"""
PAGE = 16
"""Tokens whose keys and values one page of the cache holds, by default, as in vLLM."""
MOST_CACHE_MIB = 1 << 30
"""Largest cache, 1 PiB: more than any memory, and its bytes still fit a message."""
LEAST_BUCKET, LEAST_PAST = 128, 256
"""Smallest length of a prompt's program, and of the keys that a step reads, by default; longer ones are this times a
power of two. Fewer lengths of keys, because each has a program for every batch, and short ones take little time."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How requests of a language model share the machine, as a user says it; 0 or "" stands for the default.

    batching:  one of `BATCHINGS`; "one" by default.
    max_batch: most requests that generate at the same time.
    chunk:     tokens of a chunk, of the policy "chunked".
    bucket:    lengths of programs are multiples of it; by default `LEAST_BUCKET` times powers of two.
    cache_mib: memory for keys and values; by default what the weights leave.
    page:      tokens of a page of the cache; by default `PAGE`.
    """

    batching: str = ""
    max_batch: int = 0
    chunk: int = 0
    bucket: int = 0
    cache_mib: float = 0.0
    page: int = 0

    def plan(self, config: TransformerConfig, machine: Hardware) -> Plan:
        """Return the plan for a model on a machine. Raises NpusimError for what does not fit together."""
        policy = self.batching or BATCHINGS[0]
        if policy not in BATCHINGS:
            raise NpusimError(f"--batching {policy}: may be {', '.join(BATCHINGS)}")
        for option, value in (
            ("max-batch", self.max_batch),
            ("chunk", self.chunk),
            ("bucket", self.bucket),
            ("page", self.page),
        ):
            if not 0 <= value <= MOST_TOKENS:
                raise NpusimError(f"--{option} {value}: must be 1 to {MOST_TOKENS}")
        if policy != "one" and not self.max_batch:
            raise NpusimError(f"--batching {policy}: needs its size, --max-batch N")
        if policy == "one" and self.max_batch > 1:
            raise NpusimError(
                f"--max-batch {self.max_batch}: goes with --batching {', '.join(BATCHINGS[1:])}"
            )
        if (policy == "chunked") != bool(self.chunk):
            raise NpusimError("--batching chunked and --chunk N: one needs the other")
        if not 0 <= self.cache_mib <= MOST_CACHE_MIB:
            raise NpusimError(
                f"--cache-mib {self.cache_mib:g}: must be more than 0 and at most {MOST_CACHE_MIB}"
            )
        token_bytes = config.layers * config.layer_cache_bytes
        has = sum(machine.memory_bytes(space) for space in machine.outer_spaces)
        left, page = has - config.stored_bytes, self.page or PAGE
        size = round(self.cache_mib * (1 << 20)) or left
        if size > left:
            raise NpusimError(
                f"{config.name}: weights of {config.stored_bytes} bytes and a cache of {size} are more than the "
                f"memories have, {has}; give more with dram.size_mib"
            )
        pages = size // (page * token_bytes)
        if pages < 1:
            raise NpusimError(
                f"{config.name}: a page of {page} tokens has {page * token_bytes} bytes, the cache {max(size, 0)}; "
                "give more with --cache-mib or dram.size_mib"
            )
        return Plan(
            policy, self.max_batch or 1, self.chunk, self.bucket, pages, page, token_bytes, config.positions
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A `Batching` for one model on one machine.

    pages:       pages of the cache; page: tokens in each; token_bytes: bytes of a token's keys and values.
    positions:   most tokens of a sequence; 0 for no limit.
    """

    policy: str
    max_batch: int
    chunk: int
    bucket: int
    pages: int
    page: int
    token_bytes: int = 1
    positions: int = 0

    def length(self, tokens: int) -> int:
        """Return the length of the program for a prompt."""
        return self._rounded(tokens, LEAST_BUCKET, 0)

    def past(self, tokens: int, new: int) -> int:
        """Return the tokens whose keys a program reads: `tokens` rounded up, so that `new` more have positions."""
        return self._rounded(tokens, LEAST_PAST, new) if tokens else 0

    def _rounded(self, tokens: int, least: int, new: int) -> int:
        """Return the next bucket; at the last position fewer, so that `new` tokens have theirs."""
        bucket = self.bucket or least
        steps = -(-tokens // bucket)
        rounded = bucket * steps if self.bucket else bucket << (steps - 1).bit_length()
        return max(min(rounded, self.positions - new), tokens) if self.positions else rounded

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as in the JSON."""
        sizes = {"chunk": self.chunk, "bucket": self.bucket}
        return {"batching": self.policy, "max_batch": self.max_batch} | {
            key: size for key, size in sizes.items() if size
        }

    def chunk_at(self, past: int, tokens: int) -> int:
        """Return the length of the program for a chunk: a whole one unless it would pass the last position."""
        return self.chunk if not self.positions or past + self.chunk <= self.positions else tokens

    def batch(self, sequences: int) -> int:
        """Return the batch of the program for a number of sequences: a power of two, or `max_batch`."""
        return min(1 << (sequences - 1).bit_length(), self.max_batch)

    def pages_of(self, tokens: int) -> int:
        """Return the pages for the keys and values of a number of tokens."""
        return -(-tokens // self.page)


class Sequence:
    """A request in the batch.

    known:  tokens that are to be read before it generates the next one: the prompt, and what it generated before it
            was stopped.
    length: tokens whose keys and values are in the cache.
    left:   tokens that it still has to generate.
    pages:  pages of the cache that it has.
    """

    __slots__ = ("known", "left", "length", "number", "pages")

    def __init__(self, number: int, known: int, left: int) -> None:
        self.number, self.known, self.left = number, known, left
        self.length = self.pages = 0


def simulate(requests: Requests, steps: Callable[[int, int, int], Step], plan: Plan, log: Log) -> CacheUse:
    """Serve all requests, fill their log, and return what happened to the cache.

    steps: the step for new tokens of a sequence, tokens whose keys it reads, and sequences.
    """
    environment = simpy.Environment()
    server = _Server(environment, requests, steps, plan, log)
    environment.process(server.arrive())
    environment.run()
    pages, end = server.cache, requests.end(max(log.run_end))
    pages.change(0, end)
    return CacheUse(
        plan.pages * plan.page * plan.token_bytes,
        plan.token_bytes,
        plan.pages,
        plan.page,
        pages.peak,
        pages.taken / (end - requests.begin),
        pages.stops,
        pages.again,
    )


class _Pages:
    """The paged cache of keys and values: how many of its pages are free, and statistics of its use.

    peak:  most pages taken at a time.
    taken: pages times cycles.
    stops: sequences that gave their pages back before their end, because an older one needed some.
    again: tokens that were computed again for that reason.
    """

    def __init__(self, pages: int, log: Log) -> None:
        self.pages = self.free = pages
        self._log = log
        self.peak = self.stops = self.again = 0
        self.taken = self._since = 0

    def change(self, pages: int, now: int) -> None:
        """Take a number of pages, or give them back if it is negative."""
        self.taken += (self.pages - self.free) * (now - self._since)
        self._since = now
        self.free -= pages
        self.peak = max(self.peak, self.pages - self.free)
        self._log.pages_at.append(now)
        self._log.pages.append(self.pages - self.free)


class _Server:
    """A machine that serves the requests of a language model: those that wait, and the batch that is computed."""

    def __init__(
        self,
        environment: simpy.Environment,
        requests: Requests,
        steps: Callable[[int, int, int], Step],
        plan: Plan,
        log: Log,
    ) -> None:
        self._environment, self._requests, self._steps = environment, requests, steps
        self._plan, self._log = plan, log
        self._waiting: deque[Sequence] = deque()
        self._batch: list[Sequence] = []
        """The sequences of the batch, in the order in which they joined."""
        self._idle: simpy.Event | None = None
        self._last: dict[int, int] = {}
        """For each sequence that has generated tokens, the cycle of the latest one."""
        self.cache = _Pages(plan.pages, log)
        self.gaps: Counter[int] = log.gaps
        serve = {"static": self._serve_static}.get(plan.policy, self._serve)
        environment.process(serve())

    @property
    def _now(self) -> int:
        """The current cycle: all delays are whole numbers."""
        return int(self._environment.now)

    def arrive(self) -> Generator[simpy.Event, Any, None]:
        """Put each request into the queue in the cycle of its arrival, and wake the machine if it is idle."""
        environment = self._environment
        yield environment.timeout(0)  # the server starts first
        columns = (
            each.tolist() for each in (self._requests.arrival, self._requests.prompt, self._requests.new)
        )
        for number, (at, prompt, new) in enumerate(zip(*columns, strict=True)):
            if at > self._now:
                yield environment.timeout(at - self._now)
            self._waiting.append(Sequence(number, prompt, new))
            if self._idle is not None:
                self._idle.succeed()
                self._idle = None

    def _wait(self) -> Generator[simpy.Event, Any, None]:
        """Wait until there is a request."""
        if not self._waiting and not self._batch:
            self._idle = self._environment.event()
            yield self._idle
            # All that arrive in the same cycle are there when the machine decides.
            yield self._environment.timeout(0)

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        """Serve one by one, continuously or in chunks: decide at the end of every step."""
        chunked = self._plan.policy == "chunked"
        while True:
            yield from self._wait()
            self._join()
            reading = next((each for each in self._batch if each.length < each.known), None)
            if reading is not None:
                yield from self._read(reading, self._plan.chunk if chunked else reading.known)
            if reading is None or chunked:
                yield from self._generate()

    def _join(self) -> None:
        """Let waiting requests join while the batch has a place and the cache has pages for their known tokens."""
        plan, now = self._plan, self._now
        while self._waiting and len(self._batch) < plan.max_batch:
            pages = plan.pages_of(self._waiting[0].known)
            if pages > self.cache.free:
                return
            sequence = self._waiting.popleft()
            sequence.pages = pages
            self.cache.change(pages, now)
            self._batch.append(sequence)

    def _read(self, sequence: Sequence, most: int) -> Generator[simpy.Event, Any, None]:
        """Read the next known tokens of a sequence, at most `most`; after the last of them it has a new token."""
        plan = self._plan
        tokens = min(sequence.known - sequence.length, most)
        past = plan.past(sequence.length, tokens)
        width = plan.chunk_at(past, tokens) if plan.chunk else plan.length(tokens)
        yield from self._run(self._steps(width, past, 1), [sequence])
        sequence.length += tokens
        if sequence.length == sequence.known:
            self._token(sequence)

    def _generate(self) -> Generator[simpy.Event, Any, None]:
        """Generate a token for each sequence whose known tokens are in the cache."""
        plan = self._plan
        self._grow()
        ready = [each for each in self._batch if each.length >= each.known]
        if not ready:
            return
        past = plan.past(max(each.length for each in ready), 1)
        yield from self._run(self._steps(1, past, plan.batch(len(ready))), ready)
        for each in ready:
            each.length += 1
            self._token(each)

    def _grow(self) -> None:
        """Give each sequence a page that needs one for its next token; the youngest is stopped if there is none."""
        for sequence in list(self._batch):
            while (
                sequence.pages
                and sequence.length >= sequence.known
                and self._plan.pages_of(sequence.length + 1) > sequence.pages
            ):
                if self.cache.free:
                    self.cache.change(1, self._now)
                    sequence.pages += 1
                else:
                    self._stop(self._batch[-1])

    def _stop(self, sequence: Sequence) -> None:
        """Take the pages of a sequence away; it waits in front of all others and is computed again."""
        self._batch.remove(sequence)
        self.cache.change(-sequence.pages, self._now)
        self.cache.stops += 1
        self.cache.again += sequence.length
        self._log.stops[sequence.number] += 1
        new = int(self._requests.new[sequence.number]) - sequence.left
        sequence.known = int(self._requests.prompt[sequence.number]) + new
        sequence.length = sequence.pages = 0
        self._waiting.appendleft(sequence)

    def _run(self, step: Step, sequences: list[Sequence]) -> Generator[simpy.Event, Any, None]:
        """Run a step for sequences, which share its energy equally."""
        begin = self._now
        yield self._environment.timeout(step.cycles)
        self._log.step(begin, self._now, step, [each.number for each in sequences])
        # All that arrive in this cycle are there when the machine decides, however many arrived before.
        yield self._environment.timeout(0)

    def _token(self, sequence: Sequence) -> None:
        """Count a new token; after its last one a sequence leaves the batch and gives its pages back."""
        now, number = self._now, sequence.number
        sequence.left -= 1
        if number in self._last:
            self.gaps[now - self._last[number]] += 1
        else:
            self._log.first[number] = now
        self._last[number] = now
        if sequence.left:
            return
        del self._last[number]
        self._log.end[number] = now
        if self._plan.policy != "static":
            self._batch.remove(sequence)
            self.cache.change(-sequence.pages, now)

    def _serve_static(self) -> Generator[simpy.Event, Any, None]:
        """Serve batch after batch. A batch has pages for all its tokens from the beginning, and keeps its size."""
        plan = self._plan
        while True:
            yield from self._wait()
            self._join_whole()
            batch = self._batch
            size = plan.batch(len(batch))
            width = plan.length(max(each.known for each in batch))
            yield from self._run(self._steps(width, 0, size), batch)
            length = max(each.known for each in batch)
            for each in batch:
                self._token(each)
            while going := [each for each in batch if each.left]:
                yield from self._run(self._steps(1, plan.past(length, 1), size), going)
                length += 1
                for each in going:
                    self._token(each)
            self.cache.change(-sum(each.pages for each in batch), self._now)
            self._batch = []

    def _join_whole(self) -> None:
        """Let waiting requests join while the cache has pages for all tokens that they will ever have.

        Prompts are padded to the longest one. So that one and the longest answer must fit the model's positions, and
        each request has pages for it and its own answer.
        """
        plan, batch, waiting = self._plan, self._batch, self._waiting
        prompt = answer = taken = 0
        while waiting and len(batch) < plan.max_batch:
            sequence = waiting[0]
            answer = max(answer, sequence.left)
            if sequence.known > prompt:
                prompt = sequence.known
                taken = sum(plan.pages_of(prompt + member.left - 1) for member in batch)
            taken += plan.pages_of(prompt + sequence.left - 1)
            if taken > self.cache.free or 0 < plan.positions < prompt + answer - 1:
                break
            batch.append(waiting.popleft())
        prompt = max(sequence.known for sequence in batch)
        for sequence in batch:
            sequence.pages = plan.pages_of(prompt + sequence.left - 1)
        self.cache.change(sum(sequence.pages for sequence in batch), self._now)
