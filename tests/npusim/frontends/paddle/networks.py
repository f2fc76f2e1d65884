"""Networks of the classes that Paddle is used for, each as a Paddle program and, written by hand, as an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Pair:
    """A network in both languages while it is written: lines, and the constants that both or one of them read."""

    inputs: dict[str, tuple[str, Sequence[int]]]
    seed: int = 0
    paddle: list[str] = field(default_factory=list)
    onnx: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    onnx_constants: dict[str, Any] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    scales: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._count = 0

    def name(self, word: str) -> str:
        self._count += 1
        return f"{word}_{self._count}"

    def add(self, paddle: str, onnx: str, word: str) -> str:
        """Lines with {y} for the result."""
        y = self.name(word)
        self.paddle.append(paddle.format(y=y))
        self.onnx.append(onnx.format(y=y))
        return y

    def random(self, shape: Sequence[int], scale: float = 0.5, shift: float = 0.0) -> str:
        name = self.name("w")
        self.constants[name] = (self._rng.standard_normal(shape) * scale + shift).astype(np.float32)
        return name

    def own(self, value: Any) -> str:
        """A constant that only ONNX reads."""
        name = self.name("c")
        self.onnx_constants[name] = np.asarray(value)
        return name

    # Layers

    def conv(self, x: str, depth: int, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        w, pad = (
            self.random(
                (depth, channels // groups, kernel, kernel), (2 / kernel**2 / channels * groups) ** 0.5
            ),
            kernel // 2,
        )
        op = "depthwise_conv2d" if groups == channels > 1 else "conv2d"
        return self.add(
            f"{{y}}:Output = {op}(Input={x}, Filter={w}) strides=[{stride},{stride}] paddings=[{pad},{pad}]"
            f" groups={groups} dilations=[1,1] padding_algorithm='EXPLICIT' data_format='NCHW'",
            f"{{y}} = Conv({x}, {w}) strides=[{stride},{stride}] pads=[{pad},{pad},{pad},{pad}] group={groups}",
            "conv",
        )

    def bn(self, x: str, depth: int) -> str:
        scale, bias, mean = (
            self.random((depth,), 0.1, 1),
            self.random((depth,), 0.1),
            self.random((depth,), 0.1),
        )
        variance = self.random((depth,), 0.05, 1)
        return self.add(
            f"{{y}}:Y, {mean}:MeanOut, {variance}:VarianceOut = batch_norm(X={x}, Scale={scale}, Bias={bias},"
            f" Mean={mean}, Variance={variance}) epsilon=1e-05 data_layout='NCHW' is_test=True",
            f"{{y}} = BatchNormalization({x}, {scale}, {bias}, {mean}, {variance}) epsilon=1e-05",
            "bn",
        )

    def act(self, x: str, paddle: str, onnx: str, more: str = "", more_onnx: str = "") -> str:
        return self.add(f"{{y}} = {paddle}(X={x}) {more}", f"{{y}} = {onnx}({x}) {more_onnx}", paddle)

    def hard_swish(self, x: str) -> str:
        return self.act(x, "hard_swish", "HardSwish", "threshold=6.0 scale=6.0 offset=3.0")

    def relu(self, x: str) -> str:
        return self.act(x, "relu", "Relu")

    def mean(self, x: str) -> str:
        return self.act(
            x,
            "pool2d",
            "GlobalAveragePool",
            "pooling_type='avg' ksize=[1,1] adaptive=True global_pooling=False",
        )

    def two(self, a: str, b: str, word: str, axis: int = -1) -> str:
        names = {"add": "Add", "mul": "Mul"}
        return self.add(
            f"{{y}} = elementwise_{word}(X={a}, Y={b}) axis={axis}", f"{{y}} = {names[word]}({a}, {b})", word
        )

    def squeeze_excite(self, x: str, channels: int) -> str:
        """Channel weights; the bias is added along axis 1, as Paddle has it."""
        y = self.mean(x)
        for depth, inner, last in ((channels // 4, channels, False), (channels, channels // 4, True)):
            y, bias = self.conv(y, depth, inner, 1), self.random((depth,), 0.1)
            flat = self.own(np.reshape(self.constants[bias], (depth, 1, 1)))
            y = self.add(
                f"{{y}} = elementwise_add(X={y}, Y={bias}) axis=1", f"{{y}} = Add({y}, {flat})", "add"
            )
            y = self.act(y, "hard_sigmoid", "HardSigmoid", "slope=0.2 offset=0.5") if last else self.relu(y)
        return self.two(x, y, "mul")

    def linear(self, x: str, depth: int, inner: int, kind: str = "matmul_v2") -> str:
        w, bias = self.random((inner, depth), inner**-0.5), self.random((depth,), 0.1)
        y = self.add(f"{{y}} = {kind}(X={x}, Y={w})", f"{{y}} = MatMul({x}, {w})", "fc")
        return self.two(y, bias, "add")

    def flat(self, x: str) -> str:
        return self.act(x, "flatten_contiguous_range", "Flatten", "start_axis=1 stop_axis=3", "axis=1")

    def softmax(self, x: str) -> str:
        return self.act(x, "softmax", "Softmax", "axis=-1", "axis=-1")

    def reshape(self, x: str, sizes: Sequence[int]) -> str:
        sizes_ = self.own(np.array(sizes, np.int64))
        return self.add(
            f"{{y}}, {self.name('xshape')}:XShape = reshape2(X={x}) shape={list(sizes)}",
            f"{{y}} = Reshape({x}, {sizes_})",
            "reshape",
        )

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        listed = str(list(perm)).replace(" ", "")
        return self.act(x, "transpose2", "Transpose", f"axis={listed}", f"perm={listed}")

    def coded(self, x: str, largest: float) -> str:
        """Quantized and dequantized values, by Paddle's largest magnitude."""
        scale, zero = self.name("scale"), self.name("zero")
        self.constants |= {scale: np.array([largest], np.float32), zero: np.zeros(1, np.float32)}
        step, point = self.own(np.float32(largest) / np.float32(127)), self.own(np.int8(0))
        y = self.name("codes")
        self.paddle.append(
            f"{y}:Y = quantize_linear(X={x}, Scale={scale}, ZeroPoint={zero}) bit_length=8 quant_axis=-1"
        )
        self.onnx.append(f"{y} = QuantizeLinear({x}, {step}, {point})")
        return self.add(
            f"{{y}}:Y = dequantize_linear(X={y}, Scale={scale}, ZeroPoint={zero}) bit_length=8 quant_axis=-1",
            f"{{y}} = DequantizeLinear({y}, {step}, {point})",
            "real",
        )

    def coded_weights(self, name: str, axis: int) -> str:
        """A parameter as int8 with a scale for each channel along an axis."""
        data = self.constants.pop(name)
        largest = np.abs(data).max(axis=tuple(at for at in range(data.ndim) if at != axis)).astype(np.float32)
        shape = [-1 if at == axis else 1 for at in range(data.ndim)]
        steps = largest / np.float32(127)
        self.constants[name] = np.rint(data / steps.reshape(shape)).astype(np.int8)
        scale = self.name("scale")
        self.constants[scale] = largest
        ours, zeros = self.own(steps), self.own(np.zeros(len(steps), np.int8))
        return self.add(
            f"{{y}}:Y = dequantize_linear(X={name}, Scale={scale}) bit_length=8 quant_axis={axis}",
            f"{{y}} = DequantizeLinear({name}, {ours}, {zeros}) axis={axis}",
            "weights",
        )


def lcnet() -> Pair:
    """Depthwise separable layers with hard swish, squeeze and excite in the last, a classifier."""
    n = Pair({"x": ("float32", [-1, 3, 32, 32])}, 1)
    y = n.hard_swish(n.bn(n.conv("x", 8, 3, 3, 2), 8))
    for depth, inner, stride, kernel, excite in ((16, 8, 1, 3, 0), (16, 16, 2, 3, 0), (32, 16, 2, 5, 1)):
        y = n.hard_swish(n.bn(n.conv(y, inner, inner, kernel, stride, inner), inner))
        y = n.squeeze_excite(y, inner) if excite else y
        y = n.hard_swish(n.bn(n.conv(y, depth, inner, 1), depth))
    y = n.hard_swish(n.conv(n.mean(y), 64, 32, 1))
    n.outputs = [n.softmax(n.linear(n.flat(y), 10, 64))]
    return n


def mobilenet_v3() -> Pair:
    """Inverted residuals with relu and hard swish, dropout, a product of matrices as `mul`."""
    n = Pair({"x": ("float32", [1, 3, 40, 40])}, 2)
    y = n.hard_swish(n.bn(n.conv("x", 8, 3, 3, 2), 8))
    for wide, act in ((16, n.relu), (24, n.hard_swish)):
        before = y
        y = act(n.bn(n.conv(y, wide, 8, 1), wide))
        y = act(n.bn(n.conv(y, wide, wide, 3, 1, wide), wide))
        y = n.bn(n.conv(n.squeeze_excite(y, wide), 8, wide, 1), 8)
        y = n.two(before, y, "add")
    y = n.hard_swish(y)
    y = n.flat(n.mean(y))
    y = n.add(
        f"{{y}} = dropout(X={y}) dropout_prob=0.2 is_test=True dropout_implementation='upscale_in_train'",
        f"{{y}} = Identity({y})",
        "dropout",
    )
    n.outputs = [n.linear(y, 10, 8, "mul")]
    return n


def detector() -> Pair:
    """Features of three sizes added up and side by side, then two transposed convolutions to the size of the image."""
    n = Pair({"x": ("float32", [1, 3, 64, 96])}, 3)
    levels, y, inner = [], "x", 3
    for depth in (8, 12, 16):
        y, inner = n.relu(n.bn(n.conv(y, depth, inner, 3, 2), depth)), depth
        levels.append(y)
    sides = [n.conv(level, 8, depth, 1) for level, depth in zip(levels, (8, 12, 16), strict=True)]

    def larger(x: str, times: int) -> str:
        scales = n.own(np.array([1, 1, times, times], np.float32))
        return n.add(
            f"{{y}} = nearest_interp_v2(X={x}) scale=[{times}.0,{times}.0] align_corners=False out_h=-1 out_w=-1",
            f"{{y}} = Resize({x}, _, {scales}) mode=nearest coordinate_transformation_mode=asymmetric"
            " nearest_mode=floor",
            "larger",
        )

    middle = n.two(sides[1], larger(sides[2], 2), "add")
    low = n.two(sides[0], larger(middle, 2), "add")
    parts = [low, larger(n.conv(middle, 4, 8, 3), 2), larger(n.conv(sides[2], 4, 8, 3), 4)]
    y = n.add(
        f"{{y}} = concat(X={'+'.join(parts)}) axis=1", f"{{y}} = Concat({', '.join(parts)}) axis=1", "concat"
    )
    y = n.relu(n.bn(n.conv(y, 8, 16, 3), 8))
    w, bias = n.random((8, 1, 2, 2)), n.random((1,), 0.1)
    flat = n.own(np.reshape(n.constants[bias], (1, 1, 1)))
    y = n.add(
        f"{{y}}:Output = conv2d_transpose(Input={y}, Filter={w}) strides=[2,2] paddings=[0,0] dilations=[1,1] groups=1"
        " output_size=[] output_padding=[]",
        f"{{y}} = ConvTranspose({y}, {w}) strides=[2,2]",
        "up",
    )
    y = n.add(f"{{y}} = elementwise_add(X={y}, Y={bias}) axis=1", f"{{y}} = Add({y}, {flat})", "add")
    sized = n.own(np.array([1, 1, 48, 80], np.int64))
    other = n.add(
        f"{{y}} = bilinear_interp_v2(X={y}) scale=[] out_h=48 out_w=80 align_corners=False align_mode=0",
        f"{{y}} = Resize({y}, _, _, {sized}) mode=linear coordinate_transformation_mode=half_pixel",
        "other",
    )
    n.outputs = [n.act(y, "sigmoid", "Sigmoid"), n.act(other, "sigmoid", "Sigmoid")]
    return n


def recogniser() -> Pair:
    """A column of features for each step, attention among them, two directions of LSTM, scores of characters."""
    n = Pair({"x": ("float32", [1, 3, 16, 48])}, 4)
    y = n.relu(n.bn(n.conv("x", 8, 3, 3, 2), 8))
    y = n.act(
        y,
        "pool2d",
        "MaxPool",
        "pooling_type='max' ksize=[2,2] strides=[2,2] paddings=[0,0]",
        "kernel_shape=[2,2] strides=[2,2]",
    )
    y = n.hard_swish(n.bn(n.conv(y, 16, 8, 3), 16))
    y = n.act(
        y,
        "pool2d",
        "AveragePool",
        "pooling_type='avg' ksize=[4,1] strides=[4,1] paddings=[0,0]",
        "kernel_shape=[4,1] strides=[4,1]",
    )
    axes = n.own(np.array([2], np.int64))
    y = n.add(f"{{y}} = squeeze2(X={y}) axes=[2]", f"{{y}} = Squeeze({y}, {axes})", "columns")
    y = n.transpose(y, (0, 2, 1))
    scale, bias = n.random((16,), 0.1, 1), n.random((16,), 0.1)
    normal = n.add(
        f"{{y}}:Y = layer_norm(X={y}, Scale={scale}, Bias={bias}) begin_norm_axis=2 epsilon=1e-06",
        f"{{y}} = LayerNormalization({y}, {scale}, {bias}) axis=2 epsilon=1e-06",
        "norm",
    )
    every = n.reshape(n.linear(normal, 48, 16), (0, -1, 3, 2, 8))
    every = n.transpose(every, (2, 0, 3, 1, 4))
    heads = []
    for at in range(3):
        index = n.own(np.int64(at))
        heads.append(
            n.add(
                f"{{y}} = slice(Input={every}) axes=[0] starts=[{at}] ends=[{at + 1}] decrease_axis=[0]",
                f"{{y}} = Gather({every}, {index}) axis=0",
                "head",
            )
        )
    factor = n.own(np.float32(0.125))
    query = n.add(
        f"{{y}} = scale(X={heads[0]}) scale=0.125 bias=0.0", f"{{y}} = Mul({heads[0]}, {factor})", "scale"
    )
    turned = n.name("turned")
    n.onnx.append(f"{turned} = Transpose({heads[1]}) perm=[0,1,3,2]")
    shares = n.softmax(
        n.add(
            f"{{y}} = matmul_v2(X={query}, Y={heads[1]}) trans_x=False trans_y=True",
            f"{{y}} = MatMul({query}, {turned})",
            "qk",
        )
    )
    mixed = n.add(
        f"{{y}} = matmul_v2(X={shares}, Y={heads[2]})", f"{{y}} = MatMul({shares}, {heads[2]})", "mixed"
    )
    mixed = n.reshape(n.transpose(mixed, (0, 2, 1, 3)), (0, -1, 16))
    y = n.transpose(n.two(y, n.linear(mixed, 16, 16), "add"), (1, 0, 2))
    y = _lstm(n, y, 16, 6)
    n.outputs = [n.softmax(n.linear(n.transpose(y, (1, 0, 2)), 11, 12))]
    return n


def _lstm(n: Pair, x: str, width: int, hidden: int) -> str:
    """One layer in two directions; Paddle's gates are i, f, c, o and ONNX's i, o, f, c."""
    shapes = ((4 * hidden, width), (4 * hidden, hidden)) * 2
    rows = [n.random(shape, 0.4) for shape in shapes]
    biases = [n.random((4 * hidden,), 0.1) for _ in range(4)]
    state = n.name("state")
    n.constants[state] = np.zeros((2, 1, hidden), np.float32)

    def ordered(name: str) -> Any:
        i, f, c, o = np.split(n.constants[name], 4)
        return np.concatenate([i, o, f, c])

    w, r = (n.own(np.stack([ordered(name) for name in rows[part::2]])) for part in (0, 1))
    b = n.own(np.stack([np.concatenate([ordered(name) for name in biases[at : at + 2]]) for at in (0, 2)]))
    y, every, turned = n.name("lstm"), n.name("all"), n.name("turned")
    sizes = n.own(np.array([0, 0, -1], np.int64))
    n.paddle.append(
        f"{y}, {n.name('h')}+{n.name('c')}:State, {n.name('r')}:Reserve, {n.name('d')}:DropoutState = rnn(Input={x},"
        f" PreState={state}+{state}, WeightList={'+'.join(rows + biases)}) mode='LSTM' is_bidirec=True num_layers=1"
        f" hidden_size={hidden} input_size={width} dropout_prob=0.0"
    )
    n.onnx.append(f"{every} = LSTM({x}, {w}, {r}, {b}) hidden_size={hidden} direction=bidirectional")
    n.onnx.append(f"{turned} = Transpose({every}) perm=[0,2,1,3]")
    n.onnx.append(f"{y} = Reshape({turned}, {sizes})")
    return y


def ssd() -> Pair:
    """Offsets and scores at two sizes of features, boxes from prior boxes, which ONNX gets as constants."""
    n = Pair({"x": ("float32", [1, 3, 48, 48])}, 5)
    y = n.relu(n.bn(n.conv("x", 8, 3, 3, 2), 8))
    boxes, scores, priors, variances = [], [], [], []
    for stride, inner, sizes in ((2, 8, (10.0, 16.0)), (2, 12, (20.0, 30.0))):
        y = n.act(n.conv(y, 12, inner, 3, stride), "leaky_relu", "LeakyRelu", "alpha=0.1", "alpha=0.1")
        for depth, parts, width in ((4 * 4, boxes, 4), (4 * 3, scores, 3)):
            parts.append(n.reshape(n.transpose(n.conv(y, depth, 12, 3), (0, 2, 3, 1)), (0, -1, width)))
        side = 12 if not priors else 6
        prior, variance = n.name("prior"), n.name("variance")
        n.paddle.append(
            f"{prior}:Boxes, {variance}:Variances = prior_box(Input={y}, Image=x) min_sizes=[{sizes[0]}]"
            f" max_sizes=[{sizes[1]}]"
            " aspect_ratios=[1.0,2.0] variances=[0.1,0.1,0.2,0.2] flip=True clip=False step_w=0.0 step_h=0.0 offset=0.5"
        )
        for made, parts in ((prior, priors), (variance, variances)):
            flat = n.name("flat")
            n.paddle.append(f"{flat} = reshape2(X={made}) shape=[-1,4]")
            parts.append(flat)
        n.onnx_constants[priors[-1]] = _priors(side, 48, *sizes)
    box, score = (
        n.add(
            f"{{y}} = concat(X={'+'.join(parts)}) axis=1",
            f"{{y}} = Concat({', '.join(parts)}) axis=1",
            "concat",
        )
        for parts in (boxes, scores)
    )
    decoded = n.name("decoded")
    n.paddle += [
        f"all_priors = concat(X={'+'.join(priors)}) axis=0",
        f"all_variances = concat(X={'+'.join(variances)}) axis=0",
        f"{decoded}:OutputBox = box_coder(TargetBox={box}, PriorBox=all_priors, PriorBoxVar=all_variances)"
        " code_type='decode_center_size' box_normalized=True axis=0",
    ]
    n.onnx_constants |= {"halves": np.float32(0.5), "tenth": np.float32(0.1), "fifth": np.float32(0.2)}
    n.onnx += [
        f"all_priors = Concat({', '.join(priors)}) axis=0",
        "p0, p1 = Split(all_priors) axis=1 num_outputs=2",
        f"t0, t1 = Split({box}) axis=2 num_outputs=2",
        "size = Sub(p1, p0)",
        "half = Mul(size, halves)",
        "middle = Add(p0, half)",
        "moved = Mul(t0, tenth)",
        "by = Mul(moved, size)",
        "centre = Add(by, middle)",
        "grown = Mul(t1, fifth)",
        "times = Exp(grown)",
        "wide = Mul(times, size)",
        "reach = Mul(wide, halves)",
        "first = Sub(centre, reach)",
        "last = Add(centre, reach)",
        f"{decoded} = Concat(first, last) axis=2",
    ]
    n.outputs = [decoded, n.softmax(score)]
    return n


def _priors(side: int, image: int, least: float, most: float) -> Any:
    """Boxes around the pixels of a map: the least size with aspects 1, 2 and 1 / 2, then the mean size."""
    sizes = [(least * a**0.5, least / a**0.5) for a in (1.0, 2.0, 0.5)] + [((least * most) ** 0.5,) * 2]
    step = image / side
    made = [
        [(x - w / 2) / image, (y - h / 2) / image, (x + w / 2) / image, (y + h / 2) / image]
        for y in (np.arange(side) + 0.5) * step
        for x in (np.arange(side) + 0.5) * step
        for w, h in sizes
    ]
    return np.array(made, np.float32)


def quantized_lcnet() -> Pair:
    """Convolutions on quantized values, biases added in float32, one product of matrices."""
    n = Pair({"x": ("float32", [1, 3, 32, 32])}, 6)
    y = "x"
    for depth, inner, stride, groups in ((8, 3, 2, 1), (8, 8, 1, 8), (16, 8, 2, 1)):
        y = n.coded(y, 4.0)
        kernel = 1 if groups == 1 and inner == 8 else 3
        n.conv(y, depth, inner, kernel, stride, groups)
        y = _with_coded_weights(n, 0)
        y = n.relu(n.bn(y, depth)) if depth == 16 else n.hard_swish(n.bn(y, depth))
    y = n.coded(n.flat(n.mean(n.coded(y, 4.0))), 2.0)
    w, bias = n.random((16, 10), 0.3), n.random((10,), 0.1)
    weights = n.coded_weights(w, 1)
    y = n.add(f"{{y}} = matmul_v2(X={y}, Y={weights})", f"{{y}} = MatMul({y}, {weights})", "fc")
    n.outputs = [n.two(y, bias, "add")]
    return n


def _with_coded_weights(n: Pair, axis: int) -> str:
    """The last convolution once more, of weights that are quantized by channel."""
    paddle, onnx = n.paddle.pop(), n.onnx.pop()
    name = paddle.split("Filter=")[1].split(")")[0]
    weights = n.coded_weights(name, axis)
    n.paddle.append(paddle.replace(f"Filter={name}", f"Filter={weights}"))
    n.onnx.append(onnx.replace(f", {name})", f", {weights})"))
    return paddle.split(":")[0].strip()


NETWORKS = {
    "lcnet": lcnet,
    "mobilenet_v3": mobilenet_v3,
    "detector": detector,
    "recogniser": recogniser,
    "ssd": ssd,
}
