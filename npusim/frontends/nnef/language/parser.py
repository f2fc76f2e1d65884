"""The grammar of documents: version, extensions, fragments, graph; flat and compositional, in both dialects."""

from __future__ import annotations

from npusim.frontends.nnef.language.expressions import ExpressionParser
from npusim.frontends.nnef.language.lexer import END, IDENTIFIER, MOST_DEPTH, NUMBER, QUOTED
from npusim.frontends.nnef.language.syntax import (
    Assignment,
    Expression,
    Fragment,
    Graph,
    Items,
    Literal,
    Name,
    Parameter,
    Parsed,
)
from npusim.frontends.nnef.language.value_types import (
    ANY_TENSOR,
    INTEGER,
    ITEMS,
    LOGICAL,
    OPEN,
    SCALAR,
    STRING,
    TENSOR_OF,
    UNTYPED_TENSOR,
    Array,
    Primitive,
    Tuple,
    Type,
    holds_tensors,
    is_generic,
)
from npusim.frontends.nnef.places import Source, quoted

FRAGMENTS = "KHR_enable_fragment_definitions"
EXPRESSIONS = "KHR_enable_operator_expressions"
EXTENSIONS = (FRAGMENTS, EXPRESSIONS)

_PRIMITIVES = {"scalar": SCALAR, "logical": LOGICAL, "string": STRING, OPEN: Primitive(OPEN)}
_NEWEST = (1, 0)


def parse(source: Source) -> Parsed:
    """Parse a document. Raises DocumentError for a text that does not fit the grammar."""
    try:
        return _Parser(source).document()
    except RecursionError:
        raise source.fault(0, "N", "the text nests too deeply for what is left of the stack") from None


def parse_body(source: Source) -> list[Assignment]:
    """Parse assignments in braces, in the final dialect with all expressions."""
    return _Parser(source).body(EXPRESSIONS)[0]


class _Parser(ExpressionParser):
    """The parser of documents."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._extensions: list[str] = []

    def document(self) -> Parsed:
        self._version()
        self._read_extensions()
        fragments = []
        while self.at_word("fragment"):
            if not self.is_provisional and FRAGMENTS not in self._extensions:
                raise self.lexer.fault("G7", f"a fragment; write 'extension {FRAGMENTS};' after the version")
            fragments.append(self._fragment())
        graph = self._graph()
        if self.lexer.kind != END:
            rule = "G3" if self.at_word("extension") else "G2"
            raise self.lexer.fault(rule, f"{self.lexer.shown()} after the graph, where the document ends")
        has_expressions = not self.is_provisional and EXPRESSIONS in self._extensions
        return Parsed(self.source, self.is_provisional, has_expressions, fragments, graph, [])

    def _version(self) -> None:
        lexer = self.lexer
        if not self.at_word("version"):
            raise lexer.fault("G1", f"expected 'version', found {lexer.shown()}")
        lexer.advance()
        number = lexer.text
        major, point, minor = number.partition(".")
        if lexer.kind != NUMBER or not (point and major.isdigit() and minor.isdigit()):
            raise lexer.fault("G1", f"expected a version such as 1.0, found {lexer.shown()}")
        if len(number) > 9 or (int(major), int(minor)) > _NEWEST:
            raise lexer.fault("G1", f"version {number[:9]} is newer than 1.0")
        lexer.advance()
        if self.at(";"):
            lexer.advance()
        else:
            self.use_provisional()

    def _read_extensions(self) -> None:
        lexer = self.lexer
        while self.at_word("extension"):
            if self.is_provisional:
                raise self.mixed("'extension'", ": its version line has no ';'")
            lexer.advance()
            while True:
                name, offset = self.identifier("the name of an extension", "G3")
                if name not in EXTENSIONS:
                    known = " and ".join(EXTENSIONS)
                    raise self.source.fault(
                        offset, "G3", f"unknown extension {quoted(name)}; known are {known}"
                    )
                self._extensions.append(name)
                if not self.at(","):
                    break
                lexer.advance()
            self.expect(";", "G3", "after the extensions")

    # Fragments

    def _fragment(self) -> Fragment:
        self.lexer.advance()
        name, offset = self.identifier("the name of a fragment", "F4")
        generic = self._generic_declaration() if self.at("<") else None
        parameters = self._parameters(name, "parameter")
        self.expect("->", "F4", f"and results after the parameters of {quoted(name)}")
        results = self._parameters(name, "result")
        fragment = Fragment(name, parameters, results, generic, None, self.source, offset)
        _check_declaration(fragment)
        if self.at("{"):
            extension = EXPRESSIONS if self.is_provisional or EXPRESSIONS in self._extensions else ""
            fragment.body, fragment.end = self.body(extension)
        elif self.at(";"):
            self.lexer.advance()
        elif not self.is_provisional:
            raise self.lexer.fault(
                "F4", f"expected a body or ';' after {quoted(name)}, found {self.lexer.shown()}"
            )
        return fragment

    def _generic_declaration(self) -> str:
        if self.is_provisional:
            raise self.mixed("a generic fragment")
        lexer = self.lexer
        lexer.advance()
        self.expect(OPEN, "T8", "in the declaration of a generic fragment")
        default = ""
        if self.at("="):
            lexer.advance()
            default = lexer.text
            if default not in ("scalar", "integer", "logical"):
                raise lexer.fault("T8", f"? is scalar, integer or logical, not {lexer.shown()}")
            lexer.advance()
        self.expect(">", "T8", "after the declaration of ?")
        return default

    def _parameters(self, fragment: str, what: str) -> list[Parameter]:
        self.expect("(", "F4", f"and {what}s of {quoted(fragment)}")
        parameters = []
        while True:
            name, offset = self.identifier(f"a {what} of {quoted(fragment)}", "F4")
            self.expect(":", "F4", f"and a type after {what} {quoted(name)}")
            parameter = Parameter(name, self._type(), None, offset)
            if self.at("="):
                if what == "result":
                    raise self.lexer.fault(
                        "F4", f"result {quoted(name)} has a default value; only parameters have"
                    )
                parameter.default = self._default(name)
            parameters.append(parameter)
            if self.at(")"):
                self.lexer.advance()
                return parameters
            if not self.at(","):
                rule = "F3" if parameter.default else "F4"
                shown = self.lexer.shown()
                raise self.lexer.fault(
                    rule, f"expected ',' or ')' after {what} {quoted(name)}, found {shown}"
                )
            self.lexer.advance()

    def _default(self, name: str) -> Literal:
        self.lexer.advance()
        offset = self.lexer.offset
        was_flat, self.is_flat = self.is_flat, True
        value = self._unary()
        self.is_flat = was_flat
        if not isinstance(value, Literal):
            raise self.source.fault(offset, "F3", f"the default of {quoted(name)} is no literal")
        return value

    def _type(self) -> Type:
        self.deeper()
        lexer = self.lexer
        word, offset = lexer.text, lexer.offset
        kind: Type
        if self.at("("):
            kind = self._tuple_type()
        elif word == "tensor" and lexer.kind == IDENTIFIER:
            lexer.advance()
            kind = self._tensor_type()
        elif word in _PRIMITIVES and lexer.kind != QUOTED:
            if word == OPEN and self.is_provisional:
                raise self.mixed("'?'")
            lexer.advance()
            kind = _PRIMITIVES[word]
        elif word in ("integer", "extent") and lexer.kind == IDENTIFIER:
            if word == ("integer" if self.is_provisional else "extent"):
                raise self.mixed(f"type {word}", f"; write {'extent' if self.is_provisional else 'integer'}")
            lexer.advance()
            kind = INTEGER
        else:
            raise lexer.fault("F4", f"expected a type, found {lexer.shown()}")
        levels = 0
        while self.at("["):
            lexer.advance()
            self.expect("]", "T2", "of an array type")
            kind = Array(kind)
            levels += 1
            if levels > MOST_DEPTH:
                raise self.source.fault(offset, "N", f"a type is nested deeper than {MOST_DEPTH} levels")
        self.shallower()
        return kind

    def _tensor_type(self) -> Type:
        if self.is_provisional:
            if self.at("<"):
                raise self.mixed("tensor<...>", "; write tensor")
            return UNTYPED_TENSOR
        lexer = self.lexer
        self.expect("<", "T3", "and what it holds after 'tensor'")
        if self.at(">"):
            lexer.advance()
            return ANY_TENSOR
        item = lexer.text
        if item not in (*ITEMS, OPEN) or lexer.kind == QUOTED:
            raise lexer.fault("T3", f"a tensor holds scalar, integer, logical or ?, not {lexer.shown()}")
        lexer.advance()
        self.expect(">", "T3", "after what a tensor holds")
        return TENSOR_OF[item]

    def _tuple_type(self) -> Type:
        offset = self.lexer.offset
        self.lexer.advance()
        items = [self._type()]
        while self.at(","):
            self.lexer.advance()
            items.append(self._type())
        self.expect(")", "T2", "after the types of a tuple")
        if len(items) < 2:
            raise self.source.fault(offset, "T2", "a tuple type of one item")
        if len({holds_tensors(item) for item in items}) > 1:
            raise self.source.fault(offset, "T7", f"tuple {Tuple(tuple(items))} mixes tensors and attributes")
        return Tuple(tuple(items))

    # Graph and bodies

    def _graph(self) -> Graph:
        lexer = self.lexer
        if not self.at_word("graph"):
            rule = {"extension": "G3", "version": "G1"}.get(lexer.text, "G2")
            expected = "'graph'" if self.is_provisional else "'extension', 'fragment' or 'graph'"
            raise lexer.fault(rule, f"expected {expected}, found {lexer.shown()}")
        lexer.advance()
        name, offset = self.identifier("the name of the graph", "G4")
        parameters = self._names("parameter")
        self.expect("->", "G4", "and results after the graph's parameters")
        results = self._names("result")
        for names in (parameters, results, parameters + results):
            _check_unique(self.source, names, "G4", "the graph")
        has_expressions = not self.is_provisional and EXPRESSIONS in self._extensions
        body, end = self.body(EXPRESSIONS if has_expressions else "")
        return Graph(name, offset, parameters, results, body, end)

    def _names(self, what: str) -> list[tuple[str, int]]:
        self.expect("(", "G4", f"and {what}s of the graph")
        names = [self.identifier(f"a {what} of the graph", "G4")]
        while self.at(","):
            self.lexer.advance()
            names.append(self.identifier(f"a {what} of the graph", "G4"))
        if not self.at(")"):
            shown = self.lexer.shown()
            raise self.lexer.fault(
                "G4", f"expected ',' or ')' after {what} {quoted(names[-1][0])}, found {shown}"
            )
        self.lexer.advance()
        return names

    def body(self, extension: str) -> tuple[list[Assignment], int]:
        """Parse assignments in braces, and return them with the offset of the last brace; flat unless `extension` is
        given.
        """
        self.is_flat = not extension
        self.flat_reason = (
            "; the provisional dialect has expressions in fragments only"
            if self.is_provisional
            else f"; expressions need 'extension {EXPRESSIONS};' after the version"
        )
        self.expect("{", "G5", "and assignments")
        body: list[Assignment] = []
        while not self.at("}") or not body:
            body.append(self._assignment())
        end = self.lexer.offset
        self.is_flat = False
        self.lexer.advance()
        return body, end

    def _assignment(self) -> Assignment:
        lexer = self.lexer
        offset = lexer.offset
        if lexer.kind == END or self.at("}"):
            expected = "an assignment" if lexer.kind != END else "an assignment or '}'"
            raise lexer.fault("G5", f"expected {expected}, found {lexer.shown()}")
        left = self._left_sides(offset)
        if not self.at("="):
            if lexer.text in ("-", "."):
                raise lexer.fault("L1", f"{lexer.shown()} cannot be in an identifier")
            what = {"(": "a call", "[": "a subscript"}.get(lexer.text, "")
            rule = "G8" if what else "G6"
            what = what and f"; {what} cannot stand left of '='"
            raise lexer.fault(rule, f"expected '=' after the left side, found {lexer.shown()}{what}")
        lexer.advance()
        right = self.right_side()
        if self.at(";"):
            lexer.advance()
        elif not self.is_provisional:
            raise lexer.fault("G5", f"expected ';' after the assignment, found {lexer.shown()}")
        return Assignment(offset, left, right)

    def _left_sides(self, offset: int) -> Expression:
        """Parse a left side, or a tuple of them without parentheses."""
        first = self._left_side()
        if not self.at(","):
            return first
        items = [first]
        while self.at(","):
            self.lexer.advance()
            items.append(self._left_side())
        return Items(offset, items, True)

    def _left_side(self) -> Expression:
        lexer = self.lexer
        offset = lexer.offset
        if lexer.kind == IDENTIFIER:
            name, offset = self.identifier("the name of a result", "G8")
            return Name(offset, name)
        if not (self.at("[") or self.at("(")):
            if self.source.text.startswith(("//", "/*"), offset):
                raise lexer.fault(
                    "L7", f"{quoted(self.source.text[offset : offset + 2])} begins no comment; # does"
                )
            raise lexer.fault("G8", f"expected an identifier, '[' or '(' left of '=', found {lexer.shown()}")
        self.deeper()
        is_tuple = self.at("(")
        closing = ")" if is_tuple else "]"
        lexer.advance()
        items: list[Expression] = []
        while not self.at(closing) or items or is_tuple:
            items.append(self._left_side())
            if self.at(closing):
                break
            self.expect(",", "G8", f"or {quoted(closing)} left of '='")
        lexer.advance()
        if is_tuple and len(items) < 2:
            raise self.source.fault(offset, "G8", "a tuple of one identifier")
        self.shallower()
        return Items(offset, items, is_tuple)


def _check_unique(source: Source, names: list[tuple[str, int]], rule: str, of: str) -> None:
    seen: set[str] = set()
    for name, offset in names:
        if name in seen:
            raise source.fault(offset, rule, f"{quoted(name)} is twice among parameters and results of {of}")
        seen.add(name)


def _check_declaration(fragment: Fragment) -> None:
    """Check the names, generics and results of a declaration."""
    source = fragment.source
    assert source is not None
    every = [*fragment.parameters, *fragment.results]
    _check_unique(source, [(part.name, part.offset) for part in every], "F2", quoted(fragment.name))
    generic = [part for part in every if is_generic(part.type)]
    if generic and fragment.generic is None:
        raise source.fault(
            generic[0].offset, "F5", f"{quoted(generic[0].name)} has type ?; declare the fragment <?>"
        )
    if fragment.generic is not None and not generic:
        raise source.fault(
            fragment.offset, "F5", f"{quoted(fragment.name)} is declared <?> but has no type ?"
        )
    for result in fragment.results:
        if result.type == ANY_TENSOR:
            raise source.fault(
                result.offset, "T3", f"result {quoted(result.name)} does not say what it holds"
            )
    if len({holds_tensors(result.type) for result in fragment.results}) > 1:
        raise source.fault(
            fragment.offset, "T7", f"results of {quoted(fragment.name)} mix tensors and attributes"
        )
