"""Functions of elements."""

from __future__ import annotations

from npusim.frontends.onnx.operations.row import Row, binary, unary

ROWS: tuple[Row, ...] = (
    binary("Add", "add"),
    binary("Sub", "sub"),
    binary("Mul", "mul"),
    binary("Div", "div"),
    unary("Relu"),
    unary("Sigmoid", "logistic"),
    unary("Tanh"),
)
