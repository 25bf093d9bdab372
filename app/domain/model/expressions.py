"""The expressions of derived columns: SQL text -> a typed tree, when a table is registered.

sqlglot parses the text, and only what is listed here is accepted, so an expression reads the columns of one row and
nothing else. Conversions between types are nodes of the tree. `app.domain.rows.derived_columns` computes it.

Invariant: a tree has at most MAX_EXPRESSION_NODES nodes and is at most MAX_EXPRESSION_DEPTH deep. A node can be an
operand of several others, so a walk remembers the nodes that it has seen.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, Column, ColumnType, TypeName

if TYPE_CHECKING:
    from sqlglot import exp

MAX_EXPRESSION_CHARACTERS: Final = 1_000
MAX_EXPRESSION_NODES: Final = 250
MAX_EXPRESSION_DEPTH: Final = 50


class Op(StrEnum):
    """The operation of a node on its operands."""

    COLUMN = "column"
    LITERAL = "literal"
    CAST = "cast"
    TRY_CAST = "try_cast"
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    NEGATE = "negate"
    CONCATENATE = "||"
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IS_NULL = "is null"
    AND = "and"
    OR = "or"
    NOT = "not"
    CASE = "case"
    COALESCE = "coalesce"
    UPPER = "upper"
    LOWER = "lower"
    TRIM = "trim"
    LENGTH = "length"
    SUBSTRING = "substr"
    ROUND = "round"
    EXTRACT = "extract"
    DATE_TRUNC = "date_trunc"


class ExpressionError(Exception):
    """An expression that cannot be a derived column: why, and where, counted in characters from 1."""

    def __init__(self, detail: str, at: int) -> None:
        super().__init__(f"{detail}, at character {at}")
        self.at = at


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A node of a typed tree. Its operands have the types that its operation needs."""

    op: Op
    type: ColumnType
    operands: tuple["Expression", ...] = ()
    value: Any = None
    """The name of a column, a literal, the digits of `round`, the bounds of `substr`, or a part of a time.

    Of `case`: whether the last operand is the value without a condition. The others are conditions and their values.
    """
    at: int = 1
    """Position of its first character in the text, counted from 1."""


@dataclass(frozen=True, slots=True)
class ParsedExpression:
    """An expression that the types of a table's columns allow."""

    tree: Expression
    columns: frozenset[str]
    """The columns that it reads."""
    text_uses: Sequence[str]
    """The columns of strings that it reads, one entry for each place."""
    places: Sequence[tuple[int, int, str]]
    """Positions of column names in the text: the first character, the one after the last, from 0, and the column."""


_BOOLEAN: Final = ColumnType(TypeName.BOOLEAN)
_INT64: Final = ColumnType(TypeName.INT64)
_FLOAT64: Final = ColumnType(TypeName.FLOAT64)
_STRING: Final = ColumnType(TypeName.STRING)
_TIMESTAMP: Final = ColumnType(TypeName.TIMESTAMP)
_NULL: Final = ColumnType(TypeName.BINARY, -1)
"""The type of NULL before its place gives it one."""

INTEGER_DIGITS: Final = {TypeName.INT16: 5, TypeName.INT32: 10, TypeName.INT64: 19}
_FLOATS: Final = frozenset({TypeName.FLOAT32, TypeName.FLOAT64})
_TEXTS: Final = frozenset({TypeName.STRING, TypeName.JSON})
_TIMES: Final = frozenset({TypeName.DATE, TypeName.TIMESTAMP})
_NUMBERS: Final = _FLOATS | INTEGER_DIGITS.keys() | {TypeName.DECIMAL}
_MAX_INT64: Final = 2**63 - 1

DATE_PARTS: Final = ("year", "quarter", "month", "week", "day", "isodow", "doy")
TIME_PARTS: Final = ("hour", "minute", "second")
TRUNCATED_DATES: Final = ("year", "quarter", "month", "week", "day")


def parse_expression(text: str, columns: Sequence[Column]) -> ParsedExpression:
    """Return the typed tree of an expression over these columns. Raises ExpressionError."""
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        detail = f"the expression has more than {MAX_EXPRESSION_CHARACTERS} characters"
        raise ExpressionError(detail, MAX_EXPRESSION_CHARACTERS)
    typing = _Typing(text, {column.name: column.type for column in columns})
    try:
        parsed = _parsed(text)
        tree = typing.typed(parsed, 0)
    except RecursionError:
        raise ExpressionError(f"the expression nests more than {MAX_EXPRESSION_DEPTH} deep", 1) from None
    except (AttributeError, ValueError):  # of sqlglot, for `{:1}`; of a number such as `1e`
        raise ExpressionError("the expression cannot be read", 1) from None
    if tree.type == _NULL:
        raise ExpressionError("NULL has no type; write for example cast(null as string)", tree.at)
    return ParsedExpression(tree, frozenset(name for _, _, name in typing.places), typing.text_uses, typing.places)


def renamed_expression(text: str, expression: ParsedExpression, new_names: Mapping[str, str]) -> str:
    """Return the text with every column under its new name, in quotes."""
    for start, end, name in sorted(expression.places, reverse=True):
        if new_names[name] != name:
            quoted = new_names[name].replace('"', '""')
            text = f'{text[:start]}"{quoted}"{text[end:]}'
    return text


def _parsed(text: str) -> "exp.Condition":
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError, TokenError

    try:
        return parse_one(text, into=exp.Condition)
    except ParseError as error:
        found = error.errors[0] if error.errors else {}
        line, column = found.get("line") or 1, found.get("col") or 1
        before = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
        at = max(1, before + column - max(0, len(found.get("highlight") or "") - 1))
        raise ExpressionError("the expression cannot be read", at) from None
    except TokenError:
        raise ExpressionError("a quote or a comment has no end", max(1, len(text))) from None


@dataclass
class _Typing:
    """Types of the nodes of a parsed expression."""

    text: str
    columns: Mapping[str, ColumnType]
    places: list[tuple[int, int, str]] = field(default_factory=list)
    text_uses: list[str] = field(default_factory=list)
    nodes: int = 0

    def typed(self, node: "exp.Expr", depth: int) -> Expression:
        """Return the typed node. Raises ExpressionError."""
        self.nodes += 1
        at = _start(node)
        if depth > MAX_EXPRESSION_DEPTH:
            raise ExpressionError(f"the expression nests more than {MAX_EXPRESSION_DEPTH} deep", at)
        if self.nodes > MAX_EXPRESSION_NODES:
            raise ExpressionError(f"the expression has more than {MAX_EXPRESSION_NODES} parts", at)
        rule = _RULES.get(type(node).__name__)
        if rule is None:
            raise ExpressionError(f"{_shown(node)} is not in the language of derived columns", at)
        return rule(self, node, depth + 1)

    def operand(self, node: "exp.Expr", name: str, depth: int) -> Expression:
        """Return the typed argument of this name."""
        found = node.args.get(name)
        if found is None or isinstance(found, (str, bool, list)):
            raise ExpressionError(f"{_shown(node)} lacks an argument", _start(node))
        return self.typed(found, depth)

    def only(self, node: "exp.Expr", *names: str) -> None:
        """Raise ExpressionError for an argument of another name that is set."""
        for name, value in node.args.items():
            if value and name not in {*names, "safe", "typed", "_type", "is_numeric", "big_int", "dialect"}:
                raise ExpressionError(f"{_shown(node)} has an argument that is not supported", _start(node))


def _start(node: "exp.Expr") -> int:
    """Return where a node begins, from 1: where the first of its parts begins whose place is known."""
    starts = [found.meta["start"] for found in node.walk() if "start" in found.meta]
    return min(starts, default=0) + 1


def _shown(node: "exp.Expr") -> str:
    name = node.args.get("this") if type(node).__name__ == "Anonymous" else type(node).__name__
    return f"`{str(name)[:40].lower()}`"


def _column(typing: _Typing, node: "exp.Expr", _: int) -> Expression:
    typing.only(node, "this")
    identifier = node.this
    at = _start(node)
    name = getattr(identifier, "name", "")
    if type(identifier).__name__ != "Identifier" or name not in typing.columns:
        raise ExpressionError(f"the table has no column {name[:100]!r}", at)
    typing.places.append((identifier.meta["start"], identifier.meta["end"] + 1, name))
    of_type = typing.columns[name]
    if of_type.name in _TEXTS | {TypeName.BINARY}:
        typing.text_uses.append(name)
    return Expression(Op.COLUMN, of_type, (), name, at)


def _literal(_typing: _Typing, node: "exp.Expr", _depth: int) -> Expression:
    at = _start(node)
    if node.args["is_string"]:
        return Expression(Op.LITERAL, _STRING, (), str(node.this), at)
    text = str(node.this)
    if not text.isascii() or not text.replace(".", "", 1).isdigit():
        if not isfinite(float(text)):
            raise ExpressionError("the number is not in the range of float64", at)
        return Expression(Op.LITERAL, _FLOAT64, (), float(text), at)
    whole, _, fraction = text.partition(".")
    if not fraction and int(text.rstrip(".")) <= _MAX_INT64:
        return Expression(Op.LITERAL, _INT64, (), int(text.rstrip(".")), at)
    precision = max(1, len(whole.lstrip("0")) + len(fraction))
    if precision > MAX_DECIMAL_DIGITS:
        raise ExpressionError(f"the number has more than {MAX_DECIMAL_DIGITS} digits", at)
    return Expression(Op.LITERAL, ColumnType(TypeName.DECIMAL, precision, len(fraction)), (), Decimal(text), at)


def _word(_: _Typing, node: "exp.Expr", __: int) -> Expression:
    value = node.args.get("this")
    of_type = _NULL if value is None else _BOOLEAN
    return Expression(Op.LITERAL, of_type, (), value, _start(node))


def converted(node: Expression, of_type: ColumnType) -> Expression:
    """Return a node whose value has this type. The type can hold every value of the node."""
    if node.type == of_type:
        return node
    if node.type == _NULL:
        return Expression(Op.LITERAL, of_type, (), None, node.at)
    return Expression(Op.CAST, of_type, (node,), None, node.at)


def _as_decimal(node: Expression) -> Expression:
    """Return an integer as a decimal: a literal with its digits, others with all that their type has."""
    if node.type.name is TypeName.DECIMAL:
        return node
    digits = INTEGER_DIGITS[node.type.name]
    if node.op is Op.LITERAL:
        digits = len(str(abs(node.value)))
    return converted(node, ColumnType(TypeName.DECIMAL, digits, 0))


def _common(nodes: Sequence[Expression], at: int) -> list[Expression]:
    """Return the nodes with one type that can hold the values of all. Raises ExpressionError."""
    given = [node for node in nodes if node.type != _NULL]
    if not given:
        return [*nodes]
    names = {node.type.name for node in given}
    if len({node.type for node in given}) == 1:
        wanted = given[0].type
    elif names <= _NUMBERS and names & _FLOATS:
        wanted = _FLOAT64
    elif names <= INTEGER_DIGITS.keys():
        wanted = max((node.type for node in given), key=lambda one: INTEGER_DIGITS[one.name])
    elif names <= _NUMBERS:
        decimals = {id(node): _as_decimal(node) for node in given}
        scale = max(node.type.scale for node in decimals.values())
        precision = scale + max(node.type.precision - node.type.scale for node in decimals.values())
        if precision > MAX_DECIMAL_DIGITS:
            raise ExpressionError(f"no decimal of {MAX_DECIMAL_DIGITS} digits holds both numbers; cast one of them", at)
        wanted = ColumnType(TypeName.DECIMAL, precision, scale)
        nodes = [decimals.get(id(node), node) for node in nodes]
    elif names <= _TIMES:
        wanted = _TIMESTAMP
    elif names <= _TEXTS:
        wanted = _STRING
    else:
        types = " and ".join(sorted({str(node.type) for node in given}))
        raise ExpressionError(f"{types} do not go together; cast one of them", at)
    return [converted(node, wanted) for node in nodes]


def _need(node: Expression, names: Collection[TypeName], what: str, null: ColumnType) -> Expression:
    """Return the node if it has one of these types, and NULL as `null`. Raises ExpressionError."""
    if node.type == _NULL:
        return converted(node, null)
    if node.type.name in names:
        return node
    raise ExpressionError(f"{what} is needed here, and this is {node.type}; cast it", node.at)


_number = partial(_need, names=_NUMBERS, what="a number", null=_INT64)
_text = partial(_need, names=_TEXTS, what="a string", null=_STRING)
_truth = partial(_need, names={TypeName.BOOLEAN}, what="a boolean", null=_BOOLEAN)
_time = partial(_need, names=_TIMES, what="a date or timestamp", null=_TIMESTAMP)


def _arithmetic(op: Op) -> "_Rule":
    def rule(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
        left, right = (_number(typing.operand(node, name, depth)) for name in ("this", "expression"))
        names, at = {left.type.name, right.type.name}, left.at
        if op is Op.DIVIDE or names & _FLOATS:
            return Expression(op, _FLOAT64, (converted(left, _FLOAT64), converted(right, _FLOAT64)), None, at)
        if TypeName.DECIMAL not in names:
            return Expression(op, _INT64, (converted(left, _INT64), converted(right, _INT64)), None, at)
        left, right = _as_decimal(left), _as_decimal(right)
        return Expression(op, _decimal_result(op, left.type, right.type, at), (left, right), None, at)

    return rule


def _decimal_result(op: Op, left: ColumnType, right: ColumnType, at: int) -> ColumnType:
    """Return the type of a sum or product, by the rules of Spark and Arrow, with at most 38 digits."""
    if op is Op.MULTIPLY:
        precision, scale = left.precision + right.precision + 1, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        precision = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    if scale > MAX_DECIMAL_DIGITS:
        raise ExpressionError(f"the product has {scale} digits after the point; cast an operand to fewer digits", at)
    return ColumnType(TypeName.DECIMAL, min(precision, MAX_DECIMAL_DIGITS), scale)


def _negation(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    operand = _number(typing.operand(node, "this", depth))
    if operand.op is Op.LITERAL and operand.value is not None:
        return Expression(Op.LITERAL, operand.type, (), -operand.value, operand.at)
    wanted = _INT64 if operand.type.name in INTEGER_DIGITS else operand.type
    return Expression(Op.NEGATE, wanted, (converted(operand, wanted),), None, operand.at)


def _concatenation(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    sides = tuple(_text(typing.operand(node, name, depth)) for name in ("this", "expression"))
    return Expression(Op.CONCATENATE, _STRING, sides, None, sides[0].at)


def _compared(op: Op, left: Expression, right: Expression) -> Expression:
    sides = _common((left, right), left.at)
    if sides[0].type == _NULL:
        sides = [converted(side, _BOOLEAN) for side in sides]
    unordered = {TypeName.BOOLEAN, TypeName.BINARY, TypeName.JSON}
    if op not in {Op.EQUAL, Op.NOT_EQUAL} and sides[0].type.name in unordered:
        raise ExpressionError(f"{sides[0].type} has no order; it can only be compared by = and <>", left.at)
    return Expression(op, _BOOLEAN, tuple(sides), None, left.at)


def _comparison(op: Op) -> "_Rule":
    def rule(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
        return _compared(op, typing.operand(node, "this", depth), typing.operand(node, "expression", depth))

    return rule


def _logical(op: Op) -> "_Rule":
    def rule(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
        names = ("this",) if op is Op.NOT else ("this", "expression")
        sides = tuple(_truth(typing.operand(node, name, depth)) for name in names)
        return Expression(op, _BOOLEAN, sides, None, sides[0].at)

    return rule


def _is(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    operand, other = typing.operand(node, "this", depth), typing.operand(node, "expression", depth)
    if other.type != _NULL or other.op is not Op.LITERAL:
        raise ExpressionError("`is` compares with NULL only", other.at)
    return Expression(Op.IS_NULL, _BOOLEAN, (converted(operand, _STRING) if operand.type == _NULL else operand,))


def _in(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    typing.only(node, "this", "expressions")
    operand = typing.operand(node, "this", depth)
    choices = [typing.typed(one, depth) for one in node.args.get("expressions") or ()]
    if not choices:
        raise ExpressionError("`in` needs a list of values", operand.at)
    found = _compared(Op.EQUAL, operand, choices[0])
    for choice in choices[1:]:
        found = Expression(Op.OR, _BOOLEAN, (found, _compared(Op.EQUAL, operand, choice)), None, operand.at)
    return found


def _between(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    typing.only(node, "this", "low", "high")
    operand, low, high = (typing.operand(node, name, depth) for name in ("this", "low", "high"))
    bounds = (_compared(Op.GREATER_OR_EQUAL, operand, low), _compared(Op.LESS_OR_EQUAL, operand, high))
    return Expression(Op.AND, _BOOLEAN, bounds, None, operand.at)


def _case(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    typing.only(node, "this", "ifs", "default")
    operand = None if node.args.get("this") is None else typing.operand(node, "this", depth)
    conditions, values = [], []
    for branch in node.args["ifs"]:
        condition = typing.operand(branch, "this", depth)
        conditions.append(_truth(condition) if operand is None else _compared(Op.EQUAL, operand, condition))
        values.append(typing.operand(branch, "true", depth))
    has_default = node.args.get("default") is not None
    if has_default:
        values.append(typing.operand(node, "default", depth))
    return _chosen(conditions, values, has_default=has_default)


def _chosen(conditions: Sequence[Expression], values: Sequence[Expression], *, has_default: bool) -> Expression:
    values = _common(values, values[0].at)
    pairs = [part for pair in zip(conditions, values, strict=False) for part in pair]
    operands = (*pairs, values[-1]) if has_default else (*pairs,)
    return Expression(Op.CASE, values[0].type, operands, has_default, conditions[0].at)


def _coalesce(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    typing.only(node, "this", "expressions", "is_nvl", "is_null")
    given = [typing.operand(node, "this", depth), *(typing.typed(one, depth) for one in node.expressions)]
    values = _common(given, _start(node))
    return Expression(Op.COALESCE, values[0].type, tuple(values), None, _start(node))


def _nullif(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    operand, other = typing.operand(node, "this", depth), typing.operand(node, "expression", depth)
    null = Expression(Op.LITERAL, _NULL, (), None, operand.at)
    return _chosen([_compared(Op.EQUAL, operand, other)], [null, operand], has_default=True)


def _of_text(op: Op, result: ColumnType = _STRING) -> "_Rule":
    def rule(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
        typing.only(node, "this")
        return Expression(op, result, (_text(typing.operand(node, "this", depth)),), None, _start(node))

    return rule


def _constant(typing: _Typing, node: "exp.Expr", name: str, low: int, high: int, depth: int) -> int:
    found = typing.operand(node, name, depth)
    if found.op is not Op.LITERAL or not isinstance(found.value, int) or not low <= found.value <= high:
        raise ExpressionError(f"a number from {low} to {high} is needed here", found.at)
    return found.value


_MAX_POSITION: Final = 10**6


def _substring(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    typing.only(node, "this", "start", "length")
    text = _text(typing.operand(node, "this", depth))
    start = _constant(typing, node, "start", 1, _MAX_POSITION, depth) - 1
    has_length = node.args.get("length") is not None
    end = start + _constant(typing, node, "length", 0, _MAX_POSITION, depth) if has_length else None
    return Expression(Op.SUBSTRING, _STRING, (text,), (start, end), _start(node))


def _round(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    typing.only(node, "this", "decimals")
    operand = _number(typing.operand(node, "this", depth))
    has_digits = node.args.get("decimals") is not None
    digits = _constant(typing, node, "decimals", 0, MAX_DECIMAL_DIGITS, depth) if has_digits else 0
    return Expression(Op.ROUND, operand.type, (operand,), digits, _start(node))


def _part_of(node: Expression, part: str, at: int) -> Expression:
    operand = _time(node)
    parts = DATE_PARTS if operand.type.name is TypeName.DATE else (*DATE_PARTS, *TIME_PARTS)
    if part not in parts:
        raise ExpressionError(f"a {operand.type} has no {part[:40]!r}; choose from {', '.join(parts)}", at)
    return Expression(Op.EXTRACT, _INT64, (operand,), part, at)


def _extract(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    part = str(node.this.name if hasattr(node.this, "name") else node.this).lower()
    return _part_of(typing.operand(node, "expression", depth), part, _start(node))


def _named_part(part: str) -> "_Rule":
    def rule(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
        typing.only(node, "this")
        return _part_of(typing.operand(node, "this", depth), part, _start(node))

    return rule


def _date_trunc(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
    typing.only(node, "this", "unit")
    operand = _time(typing.operand(node, "this", depth))
    unit = str(getattr(node.args.get("unit"), "name", "")).lower()
    units = TRUNCATED_DATES if operand.type.name is TypeName.DATE else (*TRUNCATED_DATES, *TIME_PARTS)
    if unit not in units:
        detail = f"a {operand.type} cannot be truncated to {unit[:40]!r}; choose from {', '.join(units)}"
        raise ExpressionError(detail, _start(node))
    return Expression(Op.DATE_TRUNC, operand.type, (operand,), unit, _start(node))


_CAST_NAMES: Final = {
    "BOOLEAN": TypeName.BOOLEAN,
    "SMALLINT": TypeName.INT16,
    "INT": TypeName.INT32,
    "BIGINT": TypeName.INT64,
    "DOUBLE": TypeName.FLOAT64,
    "TEXT": TypeName.STRING,
    "VARCHAR": TypeName.STRING,
    "DATE": TypeName.DATE,
    "TIMESTAMP": TypeName.TIMESTAMP,
}
"""Types by the names that sqlglot gives them."""
_CASTS: Final[Mapping[TypeName, frozenset[TypeName]]] = {
    TypeName.BOOLEAN: frozenset({TypeName.BOOLEAN, TypeName.STRING}) | INTEGER_DIGITS.keys(),
    TypeName.DATE: _TIMES | {TypeName.STRING},
    TypeName.TIMESTAMP: _TIMES | {TypeName.STRING},
    TypeName.STRING: _NUMBERS | _TIMES | {TypeName.BOOLEAN, TypeName.STRING},
    TypeName.JSON: frozenset({TypeName.STRING}),
    TypeName.BINARY: frozenset({TypeName.BINARY}),
} | dict.fromkeys(_NUMBERS, _NUMBERS | {TypeName.STRING})
"""Types to which values of a type can be cast."""


def _cast(op: Op) -> "_Rule":
    def rule(typing: _Typing, node: "exp.Expr", depth: int) -> Expression:
        typing.only(node, "this", "to")
        operand = typing.operand(node, "this", depth)
        wanted = _cast_type(node.args["to"], operand.at)
        if operand.type == _NULL:
            return converted(operand, wanted)
        if wanted.name not in _CASTS[operand.type.name]:
            raise ExpressionError(f"{operand.type} cannot be cast as {wanted}", operand.at)
        return Expression(op, wanted, (operand,), None, operand.at)

    return rule


def _cast_type(given: "exp.Expr", at: int) -> ColumnType:
    kind = getattr(given.this, "name", str(given.this))
    if kind == "DECIMAL":
        digits = [str(one.this) for one in given.expressions]
        if len(digits) == 2 and all(text.isascii() and text.isdigit() and len(text) <= 2 for text in digits):
            precision, scale = map(int, digits)
            if 1 <= precision <= MAX_DECIMAL_DIGITS and scale <= precision:
                return ColumnType(TypeName.DECIMAL, precision, scale)
        raise ExpressionError("decimal(p,s) needs 1 <= p <= 38 and 0 <= s <= p", at)
    if kind == "USERDEFINED" and str(given.args.get("kind")).lower() in {"float32", "float64"}:
        return ColumnType(TypeName(str(given.args["kind"]).lower()))
    if kind in _CAST_NAMES and not given.expressions:
        return ColumnType(_CAST_NAMES[kind])
    names = "boolean, int16, int32, int64, float32, float64, decimal(p,s), date, timestamp, string"
    raise ExpressionError(f"there is no type to cast to of this name; choose from {names}", at)


_Rule = Callable[[_Typing, Any, int], Expression]

_RULES: Final[Mapping[str, _Rule]] = {
    "Column": _column,
    "Literal": _literal,
    "Boolean": _word,
    "Null": _word,
    "Paren": lambda typing, node, depth: typing.operand(node, "this", depth),
    "Add": _arithmetic(Op.ADD),
    "Sub": _arithmetic(Op.SUBTRACT),
    "Mul": _arithmetic(Op.MULTIPLY),
    "Div": _arithmetic(Op.DIVIDE),
    "Neg": _negation,
    "DPipe": _concatenation,
    "EQ": _comparison(Op.EQUAL),
    "NEQ": _comparison(Op.NOT_EQUAL),
    "LT": _comparison(Op.LESS),
    "LTE": _comparison(Op.LESS_OR_EQUAL),
    "GT": _comparison(Op.GREATER),
    "GTE": _comparison(Op.GREATER_OR_EQUAL),
    "And": _logical(Op.AND),
    "Or": _logical(Op.OR),
    "Not": _logical(Op.NOT),
    "Is": _is,
    "In": _in,
    "Between": _between,
    "Case": _case,
    "Coalesce": _coalesce,
    "Nullif": _nullif,
    **{op.capitalize(): _of_text(op) for op in (Op.UPPER, Op.LOWER, Op.TRIM)},
    "Length": _of_text(Op.LENGTH, _INT64),
    "Substring": _substring,
    "Round": _round,
    "Cast": _cast(Op.CAST),
    "TryCast": _cast(Op.TRY_CAST),
    "Extract": _extract,
    "DateTrunc": _date_trunc,
    **{
        part.capitalize(): _named_part(part) for part in ("year", "quarter", "month", "day", "hour", "minute", "second")
    },
}
"""By the name of sqlglot's class."""
