"""The ONNX front end: reader, operations and writer."""
