"""Small documents for tests: a body or a fragment, and what every document has around it."""

from __future__ import annotations

EXTENSIONS = "extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;"


def flat(body: str) -> str:
    """A flat document of the final dialect; the body begins in line 4."""
    return f"version 1.0;\ngraph net( x ) -> ( y )\n{{ x = external(shape = [1,4,8,8]);\n{body}\n}}\n"


def own(fragments: str, body: str = "y = foo(x);") -> str:
    """A compositional document of the final dialect; the fragments begin in line 3."""
    graph = f"graph net( x ) -> ( y )\n{{ x = external(shape = [1,4,8,8]);\n{body}\n}}\n"
    return f"version 1.0;\n{EXTENSIONS}\n{fragments}\n{graph}"


def fragment(body: str, parameters: str = "a: tensor<scalar>", results: str = "b: tensor<scalar>") -> str:
    """A fragment foo on one line."""
    return f"fragment foo( {parameters} ) -> ( {results} ) {{ {body} }}"


def provisional(body: str, fragments: str = "") -> str:
    """A document of the provisional dialect; the fragments begin in line 2, the body in line 5."""
    return (
        f"version 1.0\n{fragments}\ngraph net( x ) -> ( y )\n{{ x = external(shape = [1,4,8,8])\n{body}\n}}\n"
    )


def valued(expression: str) -> str:
    """A document whose last call is leaky_relu with the expression as its alpha."""
    parameters = (
        "x: tensor<scalar>, a: scalar, n: integer, t: logical, s: string, v: integer[], w: scalar[],"
        " p: (integer,scalar), e: integer[], names: string[], pairs: (integer,integer)[]"
    )
    values = (
        "a = 7.0, n = 5, t = true, s = 'abc', v = [1,2,3], w = [0.5,1.5], p = (4,2.5), e = [],"
        " names = ['u','v'], pairs = [(1,2),(3,4)]"
    )
    body = f"fragment foo( {parameters} ) -> ( y: tensor<scalar> )\n{{ y = leaky_relu(x, alpha =\n{expression}\n); }}"
    return own(body, f"y = foo(x, {values});")
