"""Sound documents of both dialects, and changes of their elements."""

from __future__ import annotations

import random
import re

from tests.npusim.frontends.nnef.documents import flat, fragment, own, provisional, valued
from tests.npusim.frontends.nnef.test_expansion import GENERIC
from tests.npusim.frontends.nnef.test_expressions import SCALARS
from tests.npusim.frontends.nnef.test_provisional import PAIRS, SUM_OF
from tests.npusim.frontends.nnef.test_quantization import ZERO_POINT
from tests.npusim.frontends.nnef.test_writer import BODY

SEEDS = [
    flat(BODY),
    provisional("y = foo(x, k = [1.0,2.0,4.0])", SUM_OF),
    own(
        fragment("b = foo(relu(a), n = n - 1) if n > 0 else a;", "a: tensor<scalar>, n: integer"),
        "y = foo(x, n = 3);",
    ),
    *(valued(expression) for expression, _ in SCALARS),
    *(own("", f"z = {call}; y = relu(x);") for call, _ in GENERIC),
    *(provisional(body, fragments) for body, _, fragments in PAIRS),
]

CODES = f'"w": {ZERO_POINT};\n"z": linear_quantize(min = [[-1.0,-2.0]], max = [[1.0,2.0]], bits = 8);\n'

ELEMENT = re.compile(r"\w+|\s+|.", re.DOTALL)
ELEMENTS = sorted({element for text in (*SEEDS, CODES) for element in ELEMENT.findall(text)})
ODD = [
    "\0",
    "\r",
    "\x85",
    "\u2028",
    "\udc80",
    "é",
    "'",
    '"',
    "#",
    "99999999999999999999",
    "1e308",
    "-",
    "?",
    "[]",
    "()",
]


def mutant(text: str, chance: random.Random) -> str:
    elements = ELEMENT.findall(text)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(elements))
        match chance.randrange(5):
            case 0:
                elements[place] = ""
            case 1:
                elements[place] = chance.choice(ELEMENTS)
            case 2:
                elements.insert(place, chance.choice(ODD))
            case 3:
                other = chance.randrange(len(elements))
                elements[place], elements[other] = elements[other], elements[place]
            case _:
                elements[place:place] = elements[place : place + chance.randint(1, 9)]
    return "".join(elements)
