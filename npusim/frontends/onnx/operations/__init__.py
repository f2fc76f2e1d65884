"""The operations of ONNX by family, one row each."""
