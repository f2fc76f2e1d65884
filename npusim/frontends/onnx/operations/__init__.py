"""Operations of ONNX by family, one row each."""
