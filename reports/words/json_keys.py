"""Table of the keys of every JSON document that npusim writes, the source of docs/json.md and the JSON Schema.

A row is "path | type | unit | meaning". In a path, `a.b` is a key of an object, `a[]` the items of a list, `*` any key,
and `a?` a key that may be absent. A type that ends in "?" may be null. "@name" refers to another document or part.
"""

from __future__ import annotations

from collections.abc import Mapping

from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a JSON document: its path, its JSON type, its unit (empty for none) and its meaning."""

    path: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document, or a part of several: its name, what writes it, and its keys."""

    name: str
    written_by: str
    keys: tuple[Key, ...]


def _keys(text: str) -> tuple[Key, ...]:
    rows = (line.split("|", 3) for line in text.splitlines() if line)
    return tuple(Key(*(word.strip() for word in row)) for row in rows)


_HEAD = """
schema_version | integer | | Version of this contract: 1. Versions of npusim may add keys without a new one.
npusim_version | string | | Version of npusim that wrote the document, with its commit.
"""

_ENERGY = """
energy_uj.total | number | uJ | Energy of one inference; the sum of dynamic, static, dram and host.
energy_uj.dynamic | number | uJ | Energy of what the NPU does.
energy_uj.static | number | uJ | Leakage of the NPU over the latency.
energy_uj.dram | number | uJ | Energy of the DRAM and its interface.
energy_uj.host | number | uJ | Energy of the host's operators.
energy_uj.by_component.* | number | uJ | Energy by component of the machine; the components add up to the total.
energy_error | number? | 1 | Typical error of the energy; null where none is known.
"""

_LATENCY = """
latency_ms | number | ms | Time from the first instruction to the last result.
latency_error | number? | 1 | Typical error of the latency as a share of it; null where none is known.
"""

_DRAM = """
dram_bytes.read | integer | bytes | Data read through the DRAM port, in whole bursts.
dram_bytes.write | integer | bytes | Data written through the DRAM port, in whole bursts.
dram_bytes.instructions | integer | bytes | Instructions fetched through the DRAM port, in whole bursts.
"""

RUN = f"""{_HEAD}
model | string | | Name of the model.
hardware | @hardware | | Every key of the hardware that it ran on.
cycles.total | integer | cycles | Cycles of the NPU's clock from the first instruction to the last result.
cycles.dma | integer | cycles | Cycles in which the DMA is busy.
cycles.mac | integer | cycles | Cycles in which the MAC array is busy.
cycles.vector | integer | cycles | Cycles in which the vector unit is busy.
cycles.host | integer | cycles | Cycles in which the host is busy.
cycles.stall | integer | cycles | Cycles in which nothing computes.
{_LATENCY}
inferences_per_s | number | 1/s | Inferences per second, one after the other.
{_ENERGY}
agreement | @agreement | | What is known of the errors of latency and energy.
edp_uj_ms | number | uJ*ms | Energy times latency.
power_mw.average | number | mW | Energy over latency.
power_mw.peak | number | mW | The same as peak_10us.
power_mw.peak_10us | number | mW | Largest power, averaged over 10 us.
power_mw.peak_1ms | number | mW | Largest power, averaged over 1 ms.
area_mm2.total | number | mm2 | Estimated silicon area of the NPU, without the host.
area_mm2.by_component.* | number | mm2 | Area by component; the components add up to the total.
tops.peak | number | 1e12/s | Operations per second of the full MAC array; a multiply-accumulate is two.
tops.reached | number | 1e12/s | Operations per second that this run reached.
macs | integer | | Multiply-accumulates of the model.
mac_utilization | number | 1 | Multiply-accumulates over multipliers times cycles.
lower_bound_cycles | integer | cycles | Least cycles of any schedule of this work on an ideal machine of this size.
lower_bound_limit | string | | Resource that sets the lower bound: mac, vector, dram, host, or none.
bound_by | string | | Unit or memory that is busy longest; answer.reason.by names what a change relieves most.
lost_cycles.* | integer | cycles | Cycles beyond the lower bound, by cause; gains are negative. They add up.
{_DRAM}
memory_bytes.*.read | integer | bytes | Read at the port of a memory, by its name, with instructions, in whole bursts.
memory_bytes.*.write | integer | bytes | Written at the port of a memory, by its name, in whole bursts.
scratchpad_peak_bytes | integer | bytes | Most bytes of the scratchpad in use at a time.
instructions | integer | | Instructions of the program.
performance_info.execTime | number | 1 | PerformanceInfo of the NN HAL: time on the NPU over time on the CPU.
performance_info.powerUsage | number | 1 | PerformanceInfo of the NN HAL: energy on the NPU over energy on the CPU.
unknown_operators.* | integer | | Number of layers of an operator that npusim lacks and times by its bytes.
constants? | string | | Present if only the sizes of the model's constants are known.
equal_layers? | string | | Which equal layers were counted instead of simulated, or why none were (`--every-layer`).
weight_bits? | integer | bits | Present where the hardware stores weights in fewer than 8 bits.
notes[] | string | | Remarks of the front end that read the model.
layers[] | @layer | | Operators of the model, in its order.
pieces[] | @piece | | Groups of consecutive layers on the NPU or on the host.
devices?[] | @device | | Devices of the context, where the run had one.
what_if?[] | @variant | | Effects of changing one hardware key at a time; present with --what-if.
answer | @answer? | | What limits the run, and which changes were simulated; null for a run without cycles.
provenance | @provenance | | How the result came about.
wall_s | @wall | | Run times of npusim itself, the only values that differ between equal runs.
"""

LAYER = """
name | string | | Name of the operator in the model.
op | string | | Operator (`npusim ops`).
unit | string | | Unit that computes it: mac, vector, dma, host, or none where nothing is to be done.
input_shapes[][] | integer | | Shapes of its operands that are no constants.
output_shapes[][] | integer | | Shapes of its results.
kernel[] | integer | | Height and width of a window; else empty.
stride[] | integer | | Strides of a window; else empty.
tile[] | integer | | Sizes of the largest part of the result that one instruction computes; empty off the NPU.
dataflow | string | | Dataflows of the MAC array, joined by "+"; else empty.
cycles | integer | cycles | Cycles that are attributed to the layer; the layers add up to the total.
time_us | number | us | Cycles as time.
macs | integer | | Multiply-accumulates.
utilization | number | 1 | Multiply-accumulates over multipliers times cycles, on the MAC array; else 0.
bytes | integer | bytes | DRAM traffic of its instructions, in whole bursts.
energy_uj | number | uJ | Energy; the layers add up to the total.
start_cycle | integer? | cycles | First start of its instructions; null without instructions.
end_cycle | integer? | cycles | Last end of its instructions; null without instructions.
reason | string | | Why the host computes it; empty for the others.
lower_bound_cycles | integer | cycles | Lower bound of the layer alone.
lower_bound_limit | string | | Resource that sets its lower bound: mac, vector, dram, host, or none.
bound_by | string | | Unit or memory that is busy longest for it, or none.
busy_cycles.* | integer | cycles | Cycles in which each unit and each memory's port is busy for it.
lost_cycles.* | integer | cycles | Cycles beyond the lower bound, by cause; gains are negative.
device? | string | | Device that computes it, where there are several.
"""

ANSWER = """
reason.by | string | | Unit, memory or cause of lost cycles that a simulated change relieves most, else the longest.
reason.share | number | 1 | Share of the cycles in which it is busy, or that are lost to it.
reason.layer | string? | | Layer that has most of them; null where no layer dominates.
reason.layer_share | number | 1 | Share of these cycles that belong to that layer.
bound | string? | | compute, memory or host, where a simulated change confirms it; else null.
busy.* | number | 1 | Share of the cycles in which each unit and each memory's port is busy.
levers | list of @lever? | | Changes that help, each compiled and timed on this model, best first; null with --no-lever.
tried | integer | | How many changes were simulated.
note | string | | Why there is no lever; empty where there are some.
"""

LEVER = """
relieves | string | | Unit, memory or cause that the change relieves; clock for all units on the chip.
set?.* | any | | Keys and values of the hardware, as --set takes them; or do.
do? | string | | Command that makes the change, where no key does.
cycles | integer | cycles | Cycles of the changed run.
latency_ms | number | ms | Latency of the changed run.
energy_uj | number | uJ | Energy of the changed run.
area_mm2 | number | mm2 | Area of the changed NPU.
latency_percent | number | % | Change of the latency; negative is less.
energy_percent | number | % | Change of the energy.
area_mm2_more | number | mm2 | Change of the area.
"""

BOUNDARY = """
tensors[] | string | | Tensors that are transferred.
bytes | integer | bytes | Their sizes.
copies | integer | | DMA copies that store or load them.
copy_cycles | integer | cycles | Cycles in which at least one of these copies runs.
handover_cycles | integer | cycles | Cycles in which the host takes over and hands back.
cycles | integer | cycles | Cycles of the boundary itself, between two programs; 0 where they belong to the pieces.
time_us | number | us | The same as time.
energy_uj | number | uJ | Energy of the boundary itself.
"""

PIECE = """
side | string | | npu or host.
device | string | | Name of the device, or of the hardware.
first_layer | integer | | Number of its first layer, from 0.
last_layer | integer | | Number of its last layer.
cycles | integer | cycles | Sum over its layers.
time_us | number | us | Sum over its layers.
energy_uj | number | uJ | Sum over its layers.
entered | @boundary? | | Boundary in front of it; null where there is none.
left? | @boundary | | Boundary behind the last piece.
"""

DEVICE = """
name | string | | Name in the context.
core | integer | | Its number in the simulated system.
is_cpu | boolean | | Whether it is the host of a machine; else it is an NPU.
hardware | @hardware | | Every key of its hardware.
launches | integer | | Programs that it ran.
layers | integer | | Layers of these programs.
cycles | integer | cycles | Cycles of these programs.
time_us | number | us | The same as time.
energy_uj | number | uJ | Energy of these programs.
macs | integer | | Multiply-accumulates of these programs.
"""

VARIANT = """
parameter | string | | Changed key of the hardware.
before | number? | | Its value; null where it could not be changed.
after | number? | | The value that was tried.
latency_ms | number? | ms | Latency with the change; null where the variant was not run.
energy_uj | number? | uJ | Energy with the change.
area_mm2 | number? | mm2 | Area with the change.
latency_percent | number? | % | Change of the latency; negative is less.
energy_percent | number? | % | Change of the energy.
area_percent | number? | % | Change of the area.
reason | string | | Why the variant was not run; empty if it was.
percent_per_mm2 | number? | %/mm2 | Reduction of the latency per additional square millimetre.
chosen | boolean | | Whether an architect chooses the key; else it comes with the DRAM, the circuits or the host.
"""

PROVENANCE = """
npusim | string | | Version of npusim, with its commit.
sources_sha256 | string | | Digest of npusim's sources: it tells a changed tree from its commit.
python | string | | Version of Python.
numpy | string | | Version of NumPy.
simpy | string | | Version of SimPy.
command | string? | | Command that reproduces the numbers; null for a run from Python.
effort | any? | | Optimization level of the compiler; null for a program that was compiled before.
seed | integer? | | Seed of random inputs; null for others.
inputs | string | | random, given, or none where no data was executed.
model_sha256 | string? | | Digest of the model's file; null for a model built in Python.
shapes | string? | | Values given for open sizes of the model.
hardware_sha256 | string | | Digest of the hardware's keys without name and description.
"""

WALL = """
load | number? | s | Time to read the model.
compile | number? | s | Time to compile it.
simulate | number? | s | Time to simulate it.
restore? | number | s | Time to read a compiled model from the cache.
"""

CLAIM = """
words | string | | The claim, or why there is none, in words.
referee? | string | | What the preset was compared with; present where there is a claim.
rows? | integer | | Number of measured or estimated rows.
error? | number | 1 | Typical error over the rows.
worst? | number | 1 | Largest error over the rows.
bias? | number | 1 | Geometric mean of simulated over reference.
rank? | number? | 1 | Rank correlation over the rows.
held_out? | object? | | Rows that were not used for fitting: rows, error, worst.
settings? | object | | Keys that may differ from the preset's, with the range that the rows cover.
"""

AGREEMENT = """
preset | string | | Preset that the hardware is, or the nearest one.
changed_keys[] | string | | Keys in which it differs from that preset.
idealised | boolean | | Whether the preset is an idealised array that stands for no chip.
latency | @claim | | Claim on the latency.
energy | @claim | | Claim on the energy.
"""

JOB = f"""{_HEAD}
model | string | | Name of the model.
hardware | @hardware | | Every key of the hardware that it ran on.
cycles.total | integer | cycles | Cycles from the first launch to the end of the last.
cycles.waiting | integer | cycles | Cycles in which launches waited for cores that other jobs had.
{_LATENCY}{_ENERGY}
agreement | @agreement | | What is known of the errors of latency and energy.
macs | integer | | Multiply-accumulates.
{_DRAM}
decisions[].name | string | | Decision that was taken: an IF or a WHILE of the model.
decisions[].decided | integer | | 1 or 0 for an IF, the number of iterations for a WHILE.
decisions_assumed | boolean | | Whether the decisions were given because no data was executed.
notes[] | string | | Remarks of the front end that read the model.
programs[].name | string | | Straight-line program between decisions.
programs[].launches | integer | | How often it ran.
programs[].instructions | integer | | Its instructions.
programs[].cycles | integer | cycles | Sum over its launches.
programs[].energy_uj.* | any | uJ | Energy over its launches, with the keys of energy_uj above.
programs[].macs | integer | | Multiply-accumulates over its launches.
programs[].dram_bytes.read | integer | bytes | Data read over its launches.
programs[].dram_bytes.write | integer | bytes | Data written over its launches.
programs[].dram_bytes.instructions | integer | bytes | Instructions fetched over its launches.
provenance | @provenance | | How the result came about.
wall_s | @wall | | Run times of npusim itself.
"""

TABLE = f"""{_HEAD}
runs[] | @run or @fault | | Every model on every machine: the result, or why there is none.
"""

FAULT = """
model | string | | Name of the model.
hardware.name | string | | Name of the hardware.
fault | string | | Why there is no result.
"""

CHANGED = """
key | string | | Key of the number.
values[] | number? | | Its value in every run, the baseline first; null in a run without it.
change[] | number? | | Its change from the baseline to each other run.
change_percent[] | number? | % | The same in percent; null where it is infinite.
"""

DIFFERS = """
path | string | | Key that is not the same in all runs.
values[] | any? | | Its value in every run.
"""

COMPARISON = f"""{_HEAD}
runs[].letter | string | | Letter of the run: A is the baseline.
runs[].label | string | | Name of the run.
runs[].file | string | | File that it comes from.
runs[].model | string | | Name of its model.
runs[].hardware | string | | Name of its hardware.
runs[].npusim_version | string | | Version that made it.
runs[].agreement | @agreement? | | What is known of its errors; null for results of 0.1.0.
notes[] | string | | What to know before comparing.
headline[] | @changed | | The main numbers.
hardware[] | @differs | | Keys of the hardware that differ.
provenance[] | @differs | | Keys of the provenance that differ.
cost_unit | string | | cycles, or us where clocks differ.
losses[] | @changed | | Lower bound and lost cycles by cause, in cost_unit.
energy_uj[] | @changed | uJ | Energy by component.
layers[].name | string | | Name of the layer.
layers[].op | string | | Its operator.
layers[].cost | @changed | | Its cycles or time, in cost_unit.
layers[].energy_uj | @changed | uJ | Its energy.
layers[].bytes | @changed | bytes | Its DRAM traffic.
layers[].causes[] | @changed | | Its lower bound and lost cycles, in cost_unit.
conditions[].condition | string | | Condition as it was given to --fail-if.
conditions[].run | string | | Letter of the run that it was checked on.
conditions[].key | string | | Key of the number.
conditions[].baseline | number | | Its value in the baseline.
conditions[].value | number | | Its value in the run.
conditions[].found | number? | | Value that was compared with the limit; null where it is infinite.
conditions[].limit | number | | The limit.
conditions[].fails | boolean | | Whether the condition holds, so that the command fails.
"""

VERIFICATION = """
model | string | | Name of the model.
hardware | string | | Name of the hardware.
equal | boolean | | Whether npusim computes what the other runtime computes.
compared_tensors | integer | | Tensors that were compared, over all inputs.
compared_bytes | integer | bytes | Their bytes.
other | string | | The other runtime.
version | string | | Its version.
litert | string | | The same as version; deprecated.
kernels | string | | Which of its kernels ran.
close | number | 1 | How far floats may be apart, as a share of the largest magnitude in the tensor.
samples | integer | | Number of sets of inputs.
tensors[].layer | string | | Name of the layer.
tensors[].op | string | | Its operator.
tensors[].tensor | string | | Name of its result.
tensors[].dtype | string | | Element type.
tensors[].bytes | integer | bytes | Size.
tensors[].verdict | string | | equal, close, rounded, follows, saturated, different, or not kept (docs/verify.md).
tensors[].elements | integer | | Elements that were compared, over all inputs.
tensors[].differing | integer | | Elements that differ, over all inputs with this verdict.
tensors[].off | string? | | Runtime that is off from the exact value: npusim or other; null if unknown or neither is.
outputs | integer | | Outputs of the machine that were compared with the reference model, over all inputs.
output_bytes | integer | bytes | Their bytes.
first | @difference? | | The first difference; null if there is none.
"""

DIFFERENCE = """
sample | integer | | Set of inputs, from 0.
place | string | | layer where the reference and the other runtime differ, machine where machine and reference do.
layer | string | | Name of the layer.
op | string | | Its operator.
tensor | string | | Name of its result.
index[] | integer | | Index of the element, one number per axis.
npusim | any | | Value of npusim.
other | any | | Value of the other runtime.
litert | any | | The same as other; deprecated.
differing | integer | | Elements of the tensor that differ.
elements | integer | | Elements of the tensor.
"""

QUANTIZATION = """
model | string | | Name of the model.
form | string | | Format of the file that was written.
samples | integer | | Samples that ranges and losses come from.
layers | integer | | Layers of the network.
in_floats[].layer | string | | Layer that stayed in floats.
in_floats[].op | string | | Its operator.
in_floats[].reason | string | | Why.
losses[].output | string | | Output of the network.
losses[].largest | number | | Largest absolute difference from the float network.
losses[].mean | number | | Mean absolute difference.
losses[].range | number | | Largest minus smallest value of the float network.
losses[].snr_db | number? | dB | Power of the output over power of the differences; null where nothing differs.
losses[].cosine | number | 1 | Cosine of the angle between the two outputs.
losses[].top_1 | number? | 1 | Share of samples whose largest class is the same; null for outputs without classes.
constant_bytes.before | integer | bytes | Constants of the float network.
constant_bytes.after | integer | bytes | Constants of the quantized network.
file_bytes | integer? | bytes | Size of the file that was written.
"""

THROUGHPUT = (
    _HEAD
    + """
model | string | | Name of the model.
hardware | @hardware | | Every key of the hardware of core 0.
throughput.system | string | | Name of the system.
throughput.per_s | number | 1/s | Inferences per second, from the first start to the last end.
throughput.steady_per_s | number? | 1/s | The same while each core runs its second or a later one; null if never.
throughput.total_ms | number | ms | Time from the first start to the last end.
throughput.loading_bytes | integer | bytes | Constants and code of all programs; equal cores have one.
throughput.loading_ms | number | ms | Time to write them at the peak bandwidth of their memories.
throughput.first_loading_bytes | integer | bytes | Those of the first inference's program.
throughput.first_loading_ms | number | ms | Time to write these, before the first inference.
throughput.energy_uj | number | uJ | Energy of all inferences, memories and idle cores included.
throughput.standby_uj | number | uJ | Part of it that does not depend on what the cores do.
throughput.mean_mw | number | mW | Mean power over the whole time.
throughput.inferences[].core | integer | | Core that ran it.
throughput.inferences[].start_ms | number | ms | Its start.
throughput.inferences[].latency_ms | number | ms | Time from its start to its end.
throughput.cores[].hardware | string | | Name of its hardware.
throughput.cores[].inferences | integer | | Inferences that it ran.
throughput.cores[].busy | number | 1 | Share of the whole time in which it ran them.
throughput.cores[].mac_utilization | number | 1 | Multiply-adds over those that its array could do in that time.
throughput.cores[].dram_bytes | integer | bytes | Traffic at the DRAM port in whole bursts, with fetched code.
throughput.cores[].dram_share | number | 1 | That traffic over what passes at peak bandwidth in that time.
"""
)

GENERATION = (
    _HEAD
    + """
model | string | | Name of the model.
hardware | @hardware | | Every key of the hardware that it ran on.
generation.parameters | integer | | Weights, biases and scales of the model.
generation.weights | string | | How the weights of products are stored, such as int8 or int4-32.
generation.cache_bytes_per_token | integer | bytes | Keys and values of one token in all layers.
generation.prompt | integer | tokens | Length of the prompt.
generation.source | integer | tokens | Tokens that an encoder reads, once; 0 without one.
generation.new | integer | tokens | Generated tokens of each sequence.
generation.batch | integer | | Sequences at once.
generation.bucket | integer | tokens | A program reads the keys and values of a multiple of so many tokens.
generation.first_token_ms | number | ms | Time from the prompt to the first token.
generation.token_ms | number | ms | Mean time of a further token; 0 without any.
generation.tokens_per_s | number | 1/s | Further tokens per second, of all sequences; 0 without any.
generation.token_uj | number | uJ | Mean energy of a further token of one sequence; 0 without any.
generation.latency_ms | number | ms | Time from the prompt to the last token.
generation.energy_uj | number | uJ | Energy of prompt and tokens, of all sequences.
generation.tokens[].position | integer | | Position of the token in its sequence, the first one at 1.
generation.tokens[].past | integer | tokens | Tokens whose keys and values its program reads.
generation.tokens[].latency_ms | number | ms | Time of the token.
generation.tokens[].energy_uj | number | uJ | Energy of the token, of all sequences.
generation.tokens[].dram_bytes | integer | bytes | Traffic through the DRAM port for it, in whole bursts.
generation.equal_layers?[] | string | | `equal_layers` of a run, once; of each program, prompt first, if they differ.
"""
)

SERVING = f"""{_HEAD}
models[] | string | | Names of the models.
hardware | @hardware | | Every key of the hardware that they ran on.
agreement | @agreement | | What is known of the errors of latency and energy of the programs.
policy.requests? | string | | File of the requests; or rate or period_ms.
policy.requests_sha256? | string | | Digest of this file.
policy.rate?[] | number | 1/s | Requests per second of each model, at random.
policy.period_ms?[] | number | ms | Time between two requests of each model.
policy.count? | integer | | Number of requests, with rate or period_ms and without duration_s.
policy.duration_s? | number | s | Time in which they arrive.
policy.prompt_tokens? | integer | tokens | Tokens of each prompt, with rate or period_ms.
policy.new_tokens? | integer | tokens | Tokens of each answer, with rate or period_ms.
policy.seed? | integer | | Seed of the arrivals; present with rate.
policy.effort | any | | Optimization level of the compiler.
policy.priority?[] | integer | | Priority of each model, the larger first; empty if all are equal.
policy.deadline_ms?[] | number | ms | Deadline of each model, from arrival; empty without any.
policy.queue? | integer? | | Most requests that wait; null without a limit.
policy.preempt? | boolean | | Whether a higher priority stops a lower one at the end of a layer.
policy.batching? | string | | one, static, continuous or chunked; present for a language model.
policy.max_batch? | integer | | Most requests at once.
policy.chunk? | integer | tokens | Tokens of a chunk.
policy.bucket? | integer | tokens | Lengths of programs are multiples of it; absent for powers of two.
notes[] | string | | Remarks, such as rows of the file that were left out.
seconds | number | s | Time of all rates and shares, up to the last end or the next request (docs/serving.md).
utilization | number | 1 | Share of the time in which a program runs.
busy.* | number | 1 | Share of the time in which each unit and each memory's port is busy.
requests_per_s | number | 1/s | Answered requests per second.
tokens_per_s | number | 1/s | Generated tokens per second; 0 without any.
mean_in_system | number | | Mean number of requests that wait or are served, of those that are answered.
energy_uj.total | number | uJ | Energy of requests and of the machine while no program runs.
energy_uj.requests | number | uJ | Energy of the programs, which the requests share.
energy_uj.idle | number | uJ | Energy of the machine while no program runs.
energy_uj.preemption | number | uJ | Part of the requests' energy that moved the scratchpad for preemption.
idle_mw | number | mW | Power of the machine while no program runs.
mean_mw | number | mW | Mean power over `seconds`.
battery_wh? | number | Wh | Energy of the battery, if one was given.
battery_h? | number | h | How long the battery lasts at the mean power.
all | @group | | All requests.
tenants[] | @group | | The requests of each tenant; empty for a single one.
between_tokens_ms? | @spread | ms | Times between two tokens of a request.
cache?.bytes | integer | bytes | Size of the cache of keys and values, in whole pages.
cache?.token_bytes | integer | bytes | Keys and values of one token in all layers.
cache?.pages | integer | | Pages of the cache.
cache?.page | integer | tokens | Tokens of a page.
cache?.peak | integer | | Most pages taken at a time.
cache?.mean | number | | Pages taken on average.
cache?.stops | integer | | How often the cache was full and the youngest request was stopped.
cache?.again | integer | tokens | Tokens computed again for that.
phases[] | @phase | | Runs of programs, added up.
programs[] | @step | | Programs, each simulated once from an idle machine.
"""

SPREAD = """
mean | number | | Mean of the values; 0 without any.
p50 | number | | The smallest value that at least 50 % do not exceed.
p90 | number | | The same for 90 %.
p95 | number | | The same for 95 %.
p99 | number | | The same for 99 %.
max | number | | The largest value.
"""

GROUP = """
name | string | | Name of the tenant, or "all".
requests | integer | | Number of requests.
outcomes.NONE | integer | | Requests that were answered.
outcomes.BUSY | integer | | Requests that found the queue full.
outcomes.MISSED_DEADLINE_TRANSIENT | integer | | Requests that could not end in time when their turn came.
outcomes.MISSED_DEADLINE_PERSISTENT | integer | | Requests whose deadline even an idle machine misses.
missed_deadlines | number | 1 | Share of requests that missed their deadline.
queue_ms | @spread | ms | Times from arrival to the first step, of answered requests.
total_ms | @spread | ms | Times from arrival to the end.
first_token_ms? | @spread | ms | Times from arrival to the first token.
token_ms? | @spread | ms | Mean times of a request's tokens after the first.
request_uj | @spread | uJ | Energies of requests, without those of the machine while no program runs.
energy_uj | number | uJ | Sum of the energies, with those of requests that were not answered.
tokens? | integer | | Generated tokens.
token_uj? | number | uJ | Energy by generated token.
"""

_SUMS = """
cycles | integer | cycles | Cycles.
energy_uj | number | uJ | Energy.
macs | integer | | Multiply-accumulates.
dram_bytes | integer | bytes | Traffic through the DRAM port, in whole bursts.
busy.* | integer | cycles | Cycles in which each unit and each memory's port is busy.
limited_by | string | | Unit or memory that is busy longest.
"""

PHASE = f"""
name | string | | inference, prefill, decode or preemption.
runs | integer | | Complete runs. The sums also count inferences that were preempted and never ended.
{_SUMS}
"""

STEP = f"""
name | string | | Name of the program: the model, or the shape of a language model's step.
phase | string | | Phase that it belongs to.
tokens | integer | | New tokens of each sequence; 0 for other models.
past | integer | | Tokens whose keys and values it reads.
batch | integer | | Sequences.
equal_layers | string | | `equal_layers` of its run; empty without any.
runs | integer | | How often it ran to its end.
{_SUMS}
"""

CAPABILITIES = """
hardware | string | | Name of the hardware.
agreement | @agreement | | What is known of its errors.
cells.*.execTime | number? | 1 | Time on the NPU over time on the host's CPU; null for a type that it does not offer.
cells.*.powerUsage | number? | 1 | Energy on the NPU over energy on the host's CPU.
cells.*.provenance | string | | What was simulated for it.
operandTypes[].type | integer | | Code of the operand type.
operandTypes[].name | string | | Its name.
operandTypes[].since | string | | HAL version that has it.
operandTypes[].execTime | number? | 1 | As above.
operandTypes[].powerUsage | number? | 1 | As above.
operandTypes[].provenance | string | | What was simulated for it.
hal.* | object | | `Capabilities` of each HAL version, with the names of its structs.
"""

PRESETS = f"""{_HEAD}
presets[].name | string | | Name of the preset.
presets[].description | string | | What it stands for.
presets[].macs_per_cycle | integer? | MACs/cycle | Multiply-accumulate operations per cycle; null without an NPU.
presets[].clock_mhz | number | MHz | Clock of the NPU, or of the CPU where there is no NPU.
presets[].tops | number? | TOPS | Most 8-bit operations per second; null without an NPU.
presets[].area_mm2 | number? | mm2 | Area of the NPU with its DRAM interface; null without an NPU.
presets[].scratchpad_kib | integer | KiB | Size of the scratchpad.
presets[].host | string | | Threads and core of the host.
presets[].node_nm | integer | nm | Process node.
presets[].agreement | @agreement | | What is known of its errors.
"""

MODELS = f"""{_HEAD}
models[].name | string | | Name of the built-in model.
models[].description | string | | What it is.
models[].macs | integer | MACs | Multiply-accumulate operations of one inference, padding included.
models[].parameters | integer | | Elements of weights and biases.
"""

_COVERAGE = """
names.*[] | string | | What a model format calls it; empty where the format does not have it.
types[] | string | | Element types that its first operand may have.
ways[].unit | string | | Unit that computes it, if the conditions hold; the first whose conditions hold is taken.
ways[].types[] | string | | Element types of the first operand that this unit takes.
ways[].conditions[] | string | | What must hold.
on_host[] | string | | Element types that only the host computes.
"""

OPERATORS = f"""{_HEAD}
operators[] | @operator | | One operator.
"""

OPERATOR = f"""
operator | string | | Name of the operator in npusim.
{_COVERAGE}
"""

OPERATIONS = f"""{_HEAD}
operations[].code | integer? | | Number of the operation, where the format has some.
operations[].operation | string | | Name of the operation.
operations[].arguments | string | | Inputs and outputs.
operations[].operators[] | string | | Operators of npusim that it becomes, the main one first.
operations[].computed | @coverage? | | How the main operator is computed; null for what is known before a run.
"""

DOCUMENTS: Mapping[str, Document] = {
    each.name: each
    for each in (
        Document("run", "`npusim run MODEL --json F`, `result.to_dict()`", _keys(RUN)),
        Document("job", "the same for a model with IF or WHILE", _keys(JOB)),
        Document("table", "`npusim run MODEL MODEL --hw A --hw B --report OUT`: runs.json", _keys(TABLE)),
        Document("comparison", "`npusim compare A.json B.json --json F`", _keys(COMPARISON)),
        Document("verification", "`npusim verify MODEL --json F`", _keys(VERIFICATION)),
        Document("quantization", "`npusim quantize MODEL --json F`", _keys(QUANTIZATION)),
        Document("generation", "`npusim run CONFIG --prompt N --json F`", _keys(GENERATION)),
        Document("throughput", "`npusim run MODEL --inferences N --json F`", _keys(THROUGHPUT)),
        Document("serving", "`npusim serve MODEL --json F`", _keys(SERVING)),
        Document("capabilities", "`npusim capabilities --json F`", _keys(CAPABILITIES)),
        Document("presets", "`npusim hw list --json F`", _keys(PRESETS)),
        Document("models", "`npusim models --json F`", _keys(MODELS)),
        Document("operators", "`npusim ops --json F`", _keys(OPERATORS)),
        Document("operations", "`npusim ops --format onnx --json F`", _keys(OPERATIONS)),
    )
}
"""The documents, by name."""

PARTS: Mapping[str, Document] = {
    each.name: each
    for each in (
        Document("layer", "run", _keys(LAYER)),
        Document("answer", "run", _keys(ANSWER)),
        Document("lever", "answer", _keys(LEVER)),
        Document("piece", "run", _keys(PIECE)),
        Document("boundary", "piece", _keys(BOUNDARY)),
        Document("device", "run", _keys(DEVICE)),
        Document("variant", "run", _keys(VARIANT)),
        Document("agreement", "run, job, comparison, capabilities", _keys(AGREEMENT)),
        Document("claim", "agreement", _keys(CLAIM)),
        Document("provenance", "run, job", _keys(PROVENANCE)),
        Document("wall", "run, job", _keys(WALL)),
        Document("group", "serving", _keys(GROUP)),
        Document("spread", "group, serving", _keys(SPREAD)),
        Document("phase", "serving", _keys(PHASE)),
        Document("step", "serving", _keys(STEP)),
        Document("fault", "table", _keys(FAULT)),
        Document("changed", "comparison", _keys(CHANGED)),
        Document("differs", "comparison", _keys(DIFFERS)),
        Document("difference", "verification", _keys(DIFFERENCE)),
        Document("operator", "operators", _keys(OPERATOR)),
        Document("coverage", "operations", _keys(_COVERAGE)),
    )
}
"""Parts of documents, by name; `written_by` names the documents. The part `hardware` comes from `Hardware` instead."""
