"""Comparison of npusim with LiteRT, ONNX Runtime and the Khronos runtime, layer by layer."""
