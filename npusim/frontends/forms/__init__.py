"""What front ends share: networks of named operations, their rows, and the forms in which they become nodes of a graph.

A form knows no file format: a row of a front end reads its arguments and calls one. The vocabulary is that of networks
whose quantization is written as QuantizeLinear and DequantizeLinear around operations; ONNX and Paddle have such ones.
"""
