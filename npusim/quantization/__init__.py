"""Float networks to codes of 8 bits, after training: `npusim quantize MODEL --data F.npz -o OUT`.

`ranges` finds what every tensor holds over samples, `groups` who shares codes and which, `conversion` makes the graph,
`loss` says what that costs. What an operator does to codes is a row of `rules`. Files of ONNX are quantized by ONNX
Runtime (`onnx`).
"""
