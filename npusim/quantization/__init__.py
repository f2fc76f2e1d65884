"""Post-training quantization of float networks: `npusim quantize MODEL --data F.npz -o OUT`.

`ranges` measures the values of every tensor over samples, `groups` finds tensors that share a scale, `conversion` makes
the quantized graph, and `loss` compares the two networks. `rules` has a row per operator that can be quantized. ONNX
files are quantized by ONNX Runtime (`onnx`).
"""
