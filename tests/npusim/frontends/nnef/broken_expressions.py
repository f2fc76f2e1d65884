"""Documents that break a rule of calls, expressions or dialects: rule, text, line:column, words."""

from __future__ import annotations

from tests.npusim.frontends.nnef.documents import EXTENSIONS, flat, fragment, own, provisional

CALLS = (
    ("C1", flat("y = no_such_operation(x);"), "4:5", "'no_such_operation' is no operation"),
    ("C1", flat("y = ReLU(x);"), "4:5", "perhaps relu"),
    ("C2", flat("y = relu(x, x);"), "4:13", "argument 2 of a call where 'relu' takes 1"),
    ("C3", flat("y = add(x);"), "4:5", "'add' lacks a value for 'y'"),
    ("C3", flat("y = relu();"), "4:5", "'relu' lacks a value for 'x'"),
    ("C3", flat("w = variable(shape = [1]); y = add(x, w);"), "4:5", "'variable' lacks a value for 'label'"),
    ("C4", flat("y = add(x = x, x);"), "4:16", "by position after 'x' by name"),
    ("C5", flat("y = relu(x, slope = 1.0);"), "4:13", "'relu' has no parameter 'slope'; it has x"),
    ("C5", flat("y = transpose(x, perm = [0,1,2,3]);"), "4:18", "no parameter 'perm'; it has input, axes"),
    ("C6", flat("y = add(x = x, x = x, y = x);"), "4:16", "'x' of 'add' is named twice"),
    ("C7", flat("y = add(x, x = x);"), "4:12", "has a value by position already"),
    (
        "C8",
        flat("y = sum_reduce(x, [1]);"),
        "4:19",
        "'axes' of 'sum_reduce' is an attribute; write axes = ...",
    ),
    ("C9", flat("y = transpose(x, axes = '0123');"), "4:25", "is integer[], not string"),
    ("C9", flat("y = sum_reduce(x, axes = 1);"), "4:26", "is integer[], not integer"),
    ("C9", flat("y = sum_reduce(x, axes = [1], normalize = 1);"), "4:43", "is logical, not integer"),
    ("C9", flat("c = lt(x, 0.0); y = add(x, c);"), "4:28", "is tensor<scalar>, not tensor<logical>"),
    ("C9", flat("y = and(x, x);"), "4:9", "is tensor<logical>, not tensor<scalar>"),
    ("C9", flat("y = concat(x, axis = 1);"), "4:5", "is tensor<?>[], not tensor<scalar>"),
    ("C9", flat("y = add(x, 'one');"), "4:12", "is tensor<scalar>, not string"),
    ("C9", flat("y = add(x, 1);"), "4:12", "is tensor<scalar>, not integer"),
    ("C9", flat("y = pad(x, padding = [(0,0,0)]);"), "4:22", "not (integer, integer, integer)[]"),
    ("C9", flat("y = leaky_relu(x, alpha = 1);"), "4:27", "is scalar, not integer"),
    ("C9", flat("y = pad(x, padding = [], border = 'zero');"), "4:5", "none of constant, replicate, reflect"),
    (
        "C9",
        flat("z = multilinear_upsample(x, factor = [2,2], method = 'cubic'); y = copy(z);"),
        "4:5",
        "none of symmetric",
    ),
    ("C10", flat("y = cast(x);"), "4:5", "write cast<scalar>(...)"),
    ("C10", flat("y = concat([], axis = 1);"), "4:5", "no argument says what ? of 'concat' is"),
    ("C10", flat("y = relu<scalar>(x);"), "4:5", "'relu' is not generic"),
    ("C10", flat("y = cast<?>(x);"), "4:5", "? outside of a generic fragment"),
    ("C10", flat("y = cast<string>(x);"), "4:5", "cannot be string"),
    ("C10", flat("y = cast<float>(x);"), "4:10", "'float' is no type"),
    (
        "T8",
        flat("c = lt(x, 0.0); y = select(c, x, c);"),
        "4:21",
        "is scalar by 'true_value' and logical by 'false_value'",
    ),
)

EXPRESSIONS = (
    (
        "E1",
        own(fragment("b = a[5];", "a: scalar[]", "b: scalar"), "y = leaky_relu(x, alpha = foo(a = [1.0]));"),
        "3:52",
        "index 5 is outside of 1 items; in 'foo', called at line 6, column 27",
    ),
    (
        "E1",
        own(
            fragment("b = a[0:9];", "a: integer[]", "b: integer[]"), "y = sum_reduce(x, axes = foo(a = [1]));"
        ),
        "3:56",
        "range 0:9 is outside of 1 items",
    ),
    ("E1", own(fragment("b = a[2];", "a: (scalar,scalar)", "b: scalar")), "3:61", "index 2 of a tuple of 2"),
    ("E2", own(fragment("b = a[1.0];", "a: scalar[]", "b: scalar")), "3:54", "an index of type scalar"),
    (
        "E2",
        own(fragment("b = a[1.0:];", "a: scalar[]", "b: scalar[]")),
        "3:56",
        "an end of a range of type scalar",
    ),
    (
        "E3",
        own(fragment("b = a[i];", "a: (scalar,scalar), i: integer", "b: scalar")),
        "3:73",
        "no integer literal",
    ),
    (
        "E3",
        own(fragment("b = a[0:1];", "a: (scalar,scalar)", "b: scalar")),
        "3:59",
        "a range of (scalar, scalar)",
    ),
    ("E3", own(fragment("b = a[0];", "a: scalar", "b: scalar")), "3:50", "an index into scalar"),
    ("E4", own(fragment("b = a if a < 1.0 else relu(a);")), "3:71", "for tensors there is select(...)"),
    (
        "E4",
        own(fragment("b = 1.0 if a else 'two';", "a: logical", "b: scalar")),
        "3:65",
        "branches of scalar and string",
    ),
    ("E4", own(fragment("b = 1.0 if a;", "a: logical", "b: scalar")), "3:59", "expected 'else'"),
    (
        "E5",
        own(fragment("b = [for i in n yield i];", "n: integer", "b: integer[]")),
        "3:64",
        "a comprehension over integer",
    ),
    (
        "E5",
        own(fragment("b = [for i in n if i yield i];", "n: integer[]", "b: integer[]")),
        "3:71",
        "a filter of type integer",
    ),
    ("E5", own(fragment("b = [for i in n];", "n: integer[]", "b: integer[]")), "3:67", "expected 'yield'"),
    (
        "E5",
        own(fragment("b = [for i, j in n yield i];", "n: integer[]", "b: integer[]")),
        "3:62",
        "expected 'in' after",
    ),
    (
        "E5",
        own(
            fragment("b = [for i in n, j in [1] yield i];", "n: integer[]", "b: integer[]"),
            "y = sum_reduce(x, axes = foo(n = [1,2]));",
        ),
        "3:56",
        "arrays of 2 and 1 items",
    ),
    (
        "E6",
        own(fragment("b = a + 'one';", "a: scalar", "b: scalar")),
        "3:50",
        "'+' between scalar and string",
    ),
    (
        "E6",
        own(fragment("b = 1.0 if a && a else 2.0;", "a: scalar", "b: scalar")),
        "3:57",
        "'&&' between scalar and scalar",
    ),
    (
        "E6",
        own(fragment("b = a + k;", "a: scalar, k: integer", "b: scalar")),
        "3:62",
        "'+' between scalar and integer",
    ),
    ("E6", own(fragment("b = a + 1;")), "3:66", "'+' between tensor<scalar> and integer"),
    ("E6", own(fragment("b = !a;")), "3:66", "'!' before tensor<scalar>"),
    ("E6", own(fragment("b = -a;", "a: string", "b: string")), "3:50", "'-' before string"),
    ("E6", own(fragment("b = a if 1 in 2 else a;")), "3:71", "'in' between integer and integer"),
    (
        "E7",
        own(fragment("b = length_of(n);", "n: integer", "b: integer")),
        "3:52",
        "takes an array or a string, not integer",
    ),
    (
        "E7",
        own(fragment("b = scalar(n);", "n: integer[]", "b: scalar")),
        "3:53",
        "takes an integer, scalar, logical or",
    ),
    (
        "E7",
        own(fragment("b = scalar(n, n);", "n: integer", "b: scalar")),
        "3:59",
        "expected ')' after the argument",
    ),
    (
        "E7",
        own(
            fragment("b = integer(n);", "n: string", "b: integer"),
            "y = reshape(x, shape = [foo(n = 'two')]);",
        ),
        "3:51",
        "'two' is no literal of type integer",
    ),
    (
        "E7",
        own(
            fragment("b = integer(n);", "n: string", "b: integer"),
            "y = reshape(x, shape = [foo(n = '1.5')]);",
        ),
        "3:51",
        "'1.5' is no literal of type integer",
    ),
    ("E8", own("", "y = x + (x * x;"), "6:15", "expected ',' or ')'"),
    ("E8", own("", "y = x + * x;"), "6:9", "found '*'"),
    ("E8", own("", "y = ;"), "6:5", "found ';'"),
    (
        "E10",
        own(fragment("b = 1 / n;", "n: integer", "b: integer"), "y = reshape(x, shape = [foo(n = 0)]);"),
        "3:52",
        "'/': division by zero",
    ),
    (
        "E10",
        own(fragment("b = n ^ 64;", "n: integer", "b: integer"), "y = reshape(x, shape = [foo(n = 2)]);"),
        "3:52",
        "does not fit 64 bits",
    ),
    (
        "E10",
        own(fragment("b = n ^ 0.5;", "n: scalar", "b: scalar"), "y = leaky_relu(x, alpha = foo(n = -1.0));"),
        "3:50",
        "a negative number to a power that is not whole",
    ),
    (
        "S1",
        own("", "y = reshape(x, shape = shape_of(x));"),
        "6:24",
        "the shape of x is needed before shapes are known",
    ),
)

DIALECTS = (
    (
        "P",
        provisional("y = relu(x)").replace("\n\n", f"\n{EXTENSIONS}\n"),
        "2:1",
        "'extension' is of the final dialect",
    ),
    (
        "P",
        provisional("y = relu(x)", "fragment foo( a: tensor<scalar> ) -> ( b: tensor ) { b = a }"),
        "2:24",
        "write tensor",
    ),
    (
        "P",
        provisional("y = relu(x)", "fragment foo( a: tensor, n: integer ) -> ( b: tensor )"),
        "2:29",
        "write extent",
    ),
    (
        "P",
        provisional("y = relu(x)", "fragment foo<?>( a: tensor ) -> ( b: tensor )"),
        "2:13",
        "a generic fragment",
    ),
    (
        "P",
        provisional("y = relu(x)").replace("external", "external<scalar>"),
        "4:22",
        "the type <scalar> of a call",
    ),
    (
        "P",
        provisional(
            "y = relu(x)", "fragment foo( a: extent[] ) -> ( b: extent[] ) { b = [for i in a yield i] }"
        ),
        "2:55",
        "write [f for i in a]",
    ),
    (
        "P",
        provisional("y = relu(x)", "fragment foo( a: scalar ) -> ( b: extent ) { b = integer(a) }"),
        "2:50",
        "integer()",
    ),
    (
        "P",
        own(fragment("b = a;", "a: extent", "b: extent")),
        "3:18",
        "type extent is of the provisional dialect",
    ),
    (
        "P",
        own(fragment("b = extent(a);", "a: scalar", "b: integer")),
        "3:51",
        "extent() is of the provisional dialect",
    ),
    (
        "P",
        own(fragment("b = [i for i in a];", "a: integer[]", "b: integer[]")),
        "3:59",
        "write [for i in a yield f]",
    ),
    ("G6", provisional("y = relu(abs(x))"), "5:10", "call of 'abs' within an argument"),
    ("G7", provisional("y = x + x"), "5:7", "the provisional dialect has expressions in fragments only"),
    (
        "B2",
        provisional(
            "y = relu(x)", "fragment foo( a: tensor ) -> ( b: tensor ) { c = external(shape = [1]) b = a }"
        ),
        "2:50",
        "'external' in a fragment",
    ),
    ("C8", provisional("y = sum_reduce(x, [1])"), "5:19", "is an attribute; write axes = ..."),
    (
        "C8",
        provisional("y = foo(x, 2.0)", "fragment foo( a: tensor, k: scalar ) -> ( b: tensor ) { b = a * k }"),
        "5:12",
        "'k' of 'foo' is an attribute; write k = ...",
    ),
    (
        "C9",
        provisional(
            "y = foo(x)",
            "fragment bar( a: tensor ) -> ( b: tensor ) { b = relu(a) }"
            " fragment foo( a: tensor ) -> ( b: tensor ) { b = bar(lt(a, 0.0)) }",
        ),
        "2:50",
        "is a tensor of scalar, not logical; in 'foo', called at line 5, column 5",
    ),
)
