"""The ONNX door: reader, recognition of QDQ groups, operations."""
