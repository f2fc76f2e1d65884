"""Forms: the nodes of convolutions, pools, moves and other operations, shared by all front ends.

A form knows no file format. A front end reads the arguments of an operation and calls a form, which adds nodes to the
graph through the front end's `Conversion`. Formats that write quantization as QuantizeLinear and DequantizeLinear
around operations (ONNX, Paddle) also share the pass that finds integer operations among these (`qdq_groups`).
"""
