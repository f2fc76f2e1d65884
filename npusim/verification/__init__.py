"""npusim beside LiteRT, ONNX Runtime and the Khronos runtime: a model on both, layer by layer."""
