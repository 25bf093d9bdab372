"""Computes derived columns on Arrow columns, and finds the rows for which one cannot be computed.

A row has a fault if a number leaves its type, a divisor is zero or a cast fails. `case`, `coalesce`, `and` and `or`
count only the faults of operands that decide, as SQL evaluates them; so `case when n <> 0 then total / n end` has none.

Invariant: the value of a row does not depend on the other rows of its batch.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.expressions import INTEGER_DIGITS, Expression, Op, ParsedExpression
from app.domain.model.projection import bad_option, parsed_derive
from app.domain.model.table_schema import ColumnType, TableSchema, TypeName
from app.domain.rows.conversion import BadValues, convert_texts
from app.domain.rows.row_rules import KeptByTable, RowMarker, RowRules
from app.domain.rows.typed_columns import chosen_rows
from mirrorgate.errors import Code, RejectedInput

_PARSED: Final = KeptByTable[Mapping[str, ParsedExpression]]()

MAX_DERIVED_TEXT_BYTES: Final = 64 * 2**20
"""Bytes of all strings that the derived columns of one request read, each counted as often as it is read."""

_CARRIED: Final = "\0derive."
_MAX_WIDE: Final = 76
"""Digits of Arrow's largest decimals."""
_BITS: Final = {TypeName.INT16: 15, TypeName.INT32: 31, TypeName.INT64: 63}
_FLOATS: Final = frozenset({TypeName.FLOAT32, TypeName.FLOAT64})
_FIRST_WHOLE: Final = 2.0**53
"""From here on, each float64 is a whole number."""
_FLOAT_DIGITS: Final = 309 + 38
"""Digits of the largest float64 with those of a decimal after the point."""
_LOCAL: Final = pa.timestamp("us")
_OVERFLOW: Final = "a number leaves its type"
_ROUND: Final = "half_towards_infinity"
_PLAIN_SCALE: Final = 6
"""Digits after the point up to which Arrow writes a decimal without an exponent."""


class Fault(NamedTuple):
    """Rows for which an operation has no result."""

    rows: pa.BooleanArray
    detail: str
    at: int


class Derived(NamedTuple):
    """The values of one derived column, NULL in rows with a fault."""

    values: pa.Array
    faults: Sequence[Fault]


class WrongDerived(NamedTuple):
    """A row for which a derived column cannot be computed."""

    row: int
    column: str
    detail: str


def carried_column(name: str) -> str:
    """Return the name under which a derived column travels in a typed batch; no column of a table can have it."""
    return f"{_CARRIED}{name}"


def is_carried_column(name: str) -> bool:
    """Return True if a column of a typed batch is a derived one."""
    return name.startswith(_CARRIED)


def expressions_of(rules: RowRules) -> Mapping[str, ParsedExpression]:
    """Return the parsed expressions of a table, by the name of their column."""
    if not rules.options.derive:
        return {}
    kept = _PARSED.get(rules)
    return kept or _PARSED.keep(rules, None, parsed_derive(rules.options.derive, rules.schema))


def check_derived(derive: Mapping[str, str], schema: TableSchema, unreadable: Collection[str]) -> None:
    """Raise RejectedInput `bad_option` for an expression that is wrong, or has a literal that no cast can read."""
    for name, expression in parsed_derive(derive, schema, unreadable).items():
        waiting, seen = [expression.tree], set[int]()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            waiting += node.operands
            if node.op is Op.CAST and node.operands[0].op is Op.LITERAL:
                for fault in _Evaluation({}, 1).derived(node).faults:
                    raise bad_option(f"{fault.detail}, at character {fault.at}", "derive", name)


def with_derived(batch: pa.RecordBatch, rules: RowRules) -> tuple[pa.RecordBatch, list[WrongDerived]]:
    """Return typed rows with the derived columns of their table before the row marker, and what cannot be computed.

    Columns that the batch has already are computed again. They are NULL in deletes, which have keys only, and in rows
    that cannot be computed.
    """
    expressions = expressions_of(rules)
    if not expressions:
        return batch, []
    markers = batch.column(batch.num_columns - 1)
    kept = pc.not_equal(markers, int(RowMarker.DELETE))
    has_deletes = pc.all(kept).as_py() is False
    names = [*batch.schema.names[:-1]]
    arrays = dict(zip(names, batch.columns, strict=False))
    wrong: list[WrongDerived] = []
    for name, expression in expressions.items():
        found = _Evaluation(arrays, batch.num_rows).derived(expression.tree)
        values = pc.if_else(kept, found.values, None) if has_deletes else found.values
        arrays[carried_column(name)] = values
        for fault in found.faults:
            rows = pc.and_(fault.rows, kept) if has_deletes else fault.rows
            detail = f"the derived column cannot be computed: {fault.detail}, at character {fault.at} of its expression"
            wrong += [WrongDerived(row, name, detail) for row in pc.indices_nonzero(rows).to_pylist()]
    carried = [carried_column(name) for name in expressions]
    fields = [field for field in [*batch.schema][:-1] if field.name not in carried]
    fields += [pa.field(name, arrays[name].type) for name in carried]
    schema = pa.schema([*fields, batch.schema.field(batch.num_columns - 1)])
    return pa.RecordBatch.from_arrays([*(arrays[field.name] for field in fields), markers], schema=schema), wrong


def text_bytes(batch: pa.RecordBatch, rules: RowRules) -> int:
    """Return the bytes of the strings that derived columns read, each counted as often as it is read."""
    uses = [name for one in expressions_of(rules).values() for name in one.text_uses]
    sizes = {name: batch.column(rules.schema.names.index(name)).nbytes for name in {*uses}}
    return sum(sizes[name] for name in uses)


def check_text_bytes(batch: pa.RecordBatch, rules: RowRules) -> None:
    """Raise RejectedInput `body_too_large` for more bytes than MAX_DERIVED_TEXT_BYTES.

    Rows of row images are not checked: the drain reads them in small blocks.
    """
    if rules.options.derive and not rules.from_images and text_bytes(batch, rules) > MAX_DERIVED_TEXT_BYTES:
        detail = (
            f"derived columns read more than {MAX_DERIVED_TEXT_BYTES} bytes of strings; send fewer rows in a request"
        )
        raise RejectedInput(Code.BODY_TOO_LARGE, detail)


@dataclass(slots=True)
class _Evaluation:
    """Evaluation of the nodes of one tree, each once."""

    arrays: Mapping[str, pa.Array]
    rows: int
    _known: dict[int, Derived]

    def __init__(self, arrays: Mapping[str, pa.Array], rows: int) -> None:
        self.arrays, self.rows, self._known = arrays, rows, {}

    def derived(self, node: Expression) -> Derived:
        """Return the values of a node."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._computed(node)
        return known

    def _computed(self, node: Expression) -> Derived:
        if node.op is Op.COLUMN:
            return Derived(self.arrays[node.value], ())
        if node.op is Op.LITERAL:
            return Derived(pa.repeat(pa.scalar(node.value, node.type.arrow), self.rows), ())
        operands = [self.derived(operand) for operand in node.operands]
        if node.op in _LAZY:
            return _LAZY[node.op](node, operands)
        found = _EAGER[node.op](node, *(operand.values for operand in operands))
        if node.op is Op.TRY_CAST:
            found = Derived(found.values, ())
        return Derived(found.values, [*(fault for one in operands for fault in one.faults), *found.faults])


def _none(values: pa.Array) -> Derived:
    return Derived(values, ())


def _without(values: pa.Array, wrong: pa.BooleanArray, node: Expression, detail: str) -> Derived:
    """Return the values without those of wrong rows, which `wrong` tells without NULL."""
    if not pc.any(wrong).as_py():
        return _none(values)
    return Derived(pc.if_else(wrong, None, values), [Fault(wrong, detail, node.at)])


def _guarded(
    kernel: Callable[..., pa.Array], node: Expression, *arrays: pa.Array, of_type: pa.DataType | None = None
) -> Derived:
    """Return the kernel's values; where it raises, halves of the rows are tried until the wrong ones are found."""
    try:
        return _none(kernel(*arrays))
    except pa.ArrowInvalid:
        pass
    made = of_type or node.type.arrow
    parts: list[pa.Array] = []
    wrong: list[int] = []
    waiting = [(0, len(arrays[0]))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(kernel(*(array.slice(start, end - start) for array in arrays)))
        except pa.ArrowInvalid:
            if end - start == 1:
                wrong.append(start)
                parts.append(pa.nulls(1, made))
                continue
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return _without(pa.concat_arrays(parts), chosen_rows(len(arrays[0]), wrong), node, _OVERFLOW)


def _true(values: pa.BooleanArray) -> pa.BooleanArray:
    return pc.fill_null(values, False)


def _where(faults: Sequence[Fault], rows: pa.BooleanArray) -> list[Fault]:
    """Return the faults of these rows only."""
    found = [fault._replace(rows=pc.and_(fault.rows, rows)) for fault in faults]
    return [fault for fault in found if pc.any(fault.rows).as_py()]


def _case(node: Expression, operands: Sequence[Derived]) -> Derived:
    pairs, default = (operands[:-1], operands[-1]) if node.value else (operands, None)
    faults: list[Fault] = []
    left = None
    conditions, values = [], []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        is_true = _true(condition.values)
        here = is_true if left is None else pc.and_(left, is_true)
        faults += condition.faults if left is None else _where(condition.faults, left)
        faults += _where(value.faults, here)
        left = pc.invert(is_true) if left is None else pc.and_not(left, is_true)
        conditions.append(is_true)
        values.append(value.values)
    if default is not None and left is not None:
        faults += _where(default.faults, left)
        values.append(default.values)
    return Derived(pc.case_when(pc.make_struct(*conditions), *values), faults)


def _coalesce(_: Expression, operands: Sequence[Derived]) -> Derived:
    faults = [*operands[0].faults]
    values = operands[0].values
    for operand in operands[1:]:
        if operand.faults:
            faults += _where(operand.faults, pc.is_null(values))
        values = pc.coalesce(values, operand.values)
    return Derived(values, faults)


def _logical(node: Expression, operands: Sequence[Derived]) -> Derived:
    left, right = operands
    combine = pc.and_kleene if node.op is Op.AND else pc.or_kleene
    decides = pc.fill_null(left.values if node.op is Op.AND else pc.invert(left.values), True)
    faults = _where(right.faults, decides) if right.faults else []
    return Derived(combine(left.values, right.values), [*left.faults, *faults])


_LAZY: Final[Mapping[Op, Callable[[Expression, Sequence[Derived]], Derived]]] = {
    Op.CASE: _case,
    Op.COALESCE: _coalesce,
    Op.AND: _logical,
    Op.OR: _logical,
}

_INTEGER_KERNELS: Final = {
    Op.ADD: pc.add_checked,
    Op.SUBTRACT: pc.subtract_checked,
    Op.MULTIPLY: pc.multiply_checked,
}
_KERNELS: Final = {Op.ADD: pc.add, Op.SUBTRACT: pc.subtract, Op.MULTIPLY: pc.multiply, Op.DIVIDE: pc.divide}


def _arithmetic(node: Expression, left: pa.Array, right: pa.Array) -> Derived:
    if node.type.name is TypeName.INT64:
        return _guarded(_INTEGER_KERNELS[node.op], node, left, right)
    if node.type.name is TypeName.DECIMAL:
        return _decimals(node, left, right)
    faults: Sequence[Fault] = ()
    if node.op is Op.DIVIDE:
        is_zero = pc.and_(_true(pc.equal(right, 0.0)), pc.is_valid(left))
        right, faults = _without(right, is_zero, node, "a division by zero")
    found = _finite(node, _KERNELS[node.op](left, right), left, right)
    return Derived(found.values, [*faults, *found.faults])


def _finite(node: Expression, values: pa.Array, *operands: pa.Array) -> Derived:
    """Return floats; one that is not finite is a fault, unless an operand is not."""
    if pc.all(pc.is_finite(values)).as_py() in {True, None}:
        return _none(values)
    wrong = pc.invert(pc.is_finite(values))
    for operand in operands:
        wrong = pc.and_(wrong, pc.is_finite(operand))
    return _without(values, _true(wrong), node, _OVERFLOW)


def _decimals(node: Expression, left: pa.Array, right: pa.Array) -> Derived:
    """Return sums or products of decimals, in wide ones if the exact result can have more than 38 digits."""
    one, other = left.type, right.type
    kernel = _KERNELS[node.op]
    if node.op is Op.MULTIPLY:
        digits = one.precision + other.precision + 1
    else:
        digits = node.type.scale + max(one.precision - one.scale, other.precision - other.scale) + 1
    if digits <= node.type.precision:
        return _none(kernel(left, right))
    if digits > _MAX_WIDE:
        return _guarded(partial(_exact_product, node.type), node, left, right)
    wide = kernel(
        left.cast(pa.decimal256(one.precision, one.scale)), right.cast(pa.decimal256(other.precision, other.scale))
    )
    return _narrowed(node, wide)


def _exact_product(of_type: ColumnType, left: pa.Array, right: pa.Array) -> pa.Array:
    """Multiply decimals of 38 digits, of which Arrow has no product. Raises ArrowInvalid."""
    context = Context(prec=_MAX_WIDE + 4)
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    products = [None if a is None or b is None else context.multiply(a, b) for a, b in pairs]
    return pa.array(products, of_type.arrow)


def _narrowed(node: Expression, wide: pa.Array) -> Derived:
    """Return wide decimals, which have the scale of the node's type, as that type."""
    of_type = node.type
    if wide.type.precision - wide.type.scale <= of_type.precision - of_type.scale:
        return _none(wide.cast(of_type.arrow))
    limit = pa.scalar(Decimal(10) ** (of_type.precision - of_type.scale), pa.decimal256(_MAX_WIDE, wide.type.scale))
    whole = wide.cast(pa.decimal256(_MAX_WIDE, wide.type.scale))
    found = _without(whole, _true(pc.greater_equal(pc.abs(whole), limit)), node, _OVERFLOW)
    return Derived(found.values.cast(of_type.arrow), found.faults)


def _negated(node: Expression, operand: pa.Array) -> Derived:
    if node.type.name is TypeName.INT64:
        return _guarded(pc.negate_checked, node, operand)
    return _none(pc.negate(operand))


def _rounded(node: Expression, operand: pa.Array) -> Derived:
    if node.type.name in INTEGER_DIGITS:
        return _none(operand)
    if node.type.name is TypeName.DECIMAL:
        return _rescaled(node, operand, min(node.value, node.type.scale))
    wide = operand.cast(pa.float64())
    is_whole = pc.invert(pc.less(pc.abs(wide), _FIRST_WHOLE))
    rounded = pc.round(pc.if_else(is_whole, 0.0, wide), ndigits=node.value, round_mode=_ROUND)
    return _none(pc.if_else(is_whole, wide, rounded).cast(node.type.arrow))


def _rescaled(node: Expression, operand: pa.Array, digits: int) -> Derived:
    """Return decimals rounded to these digits after the point, half away from zero, as the type of the node."""
    scale, whole = operand.type.scale, operand.type.precision - operand.type.scale
    if digits == scale and node.type.scale >= scale and node.type.precision - node.type.scale >= whole:
        return _none(operand.cast(node.type.arrow))
    wide = operand.cast(pa.decimal256(min(_MAX_WIDE, operand.type.precision + 1), scale))
    if digits < scale:
        wide = pc.round(wide, ndigits=digits, round_mode=_ROUND)
    wanted = node.type.scale
    return _narrowed(node, wide.cast(pa.decimal256(min(_MAX_WIDE, whole + 1 + max(scale, wanted)), wanted)))


def _cast(node: Expression, operand: pa.Array) -> Derived:
    source, wanted = node.operands[0].type, node.type
    if source.arrow == wanted.arrow:
        return _none(operand)
    if source.name is TypeName.STRING:
        return _from_texts(node, operand)
    if wanted.name is TypeName.STRING:
        return _none(_written(operand, source))
    if source.name is TypeName.BOOLEAN:
        return _none(operand.cast(wanted.arrow))
    if wanted.name is TypeName.TIMESTAMP:
        return _none(operand.cast(_LOCAL).view(wanted.arrow))
    if wanted.name is TypeName.DATE:
        return _none(operand.view(_LOCAL).cast(wanted.arrow))
    if source.name in _FLOATS:
        return _from_floats(node, operand)
    if wanted.name in _FLOATS:  # Arrow casts decimals to other floats than the nearest, and rounds integers if unsafe
        numbers = operand.cast(pa.string()) if source.name is TypeName.DECIMAL else operand
        return _none(numbers.cast(wanted.arrow, safe=False))
    return _from_exact(node, operand)


def _from_texts(node: Expression, texts: pa.StringArray) -> Derived:
    """Return strings as values, by the rules for the strings of changes."""
    try:
        return _none(convert_texts(texts, node.type))
    except BadValues as bad:
        wrong = chosen_rows(len(texts), bad.reasons)
    right = convert_texts(pc.if_else(wrong, None, texts), node.type)
    return _without(right, wrong, node, f"a string does not fit {node.type}")


def _written(operand: pa.Array, source: ColumnType) -> pa.StringArray:
    if source.name is TypeName.DECIMAL and source.scale > _PLAIN_SCALE:
        return pa.array([None if value is None else f"{value:f}" for value in operand.to_pylist()], pa.string())
    return operand.cast(pa.string())


def _from_floats(node: Expression, floats: pa.Array) -> Derived:
    """Return floats as other numbers, rounded to the nearest."""
    if node.type.name in _FLOATS:
        return _finite(node, floats.cast(node.type.arrow), floats)
    found = _without(floats, _true(pc.invert(pc.is_finite(floats))), node, _OVERFLOW)
    if node.type.name is TypeName.DECIMAL:
        inner = _guarded(partial(_rounded_decimals, node.type), node, found.values)
    else:
        inner = _in_range(node, pc.round(found.values.cast(pa.float64()), ndigits=0, round_mode=_ROUND))
    return Derived(inner.values, [*found.faults, *inner.faults])


def _rounded_decimals(of_type: ColumnType, floats: pa.Array) -> pa.Array:
    """Return floats as decimals, half away from zero, which Arrow rounds to even. Raises ArrowInvalid."""
    context, step = Context(prec=_FLOAT_DIGITS, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-of_type.scale)
    exact = [None if value is None else Decimal(value).quantize(step, context=context) for value in floats.to_pylist()]
    return pa.array(exact, of_type.arrow)


def _from_exact(node: Expression, operand: pa.Array) -> Derived:
    """Return integers or decimals as other integers or decimals."""
    if not pa.types.is_decimal(operand.type):
        if node.type.name in INTEGER_DIGITS:
            return _in_range(node, operand.cast(pa.int64()))
        if node.type.precision - node.type.scale >= INTEGER_DIGITS[node.operands[0].type.name]:
            return _none(operand.cast(node.type.arrow))
        operand = operand.cast(pa.int64()).cast(pa.decimal128(INTEGER_DIGITS[TypeName.INT64], 0))
    if node.type.name is TypeName.DECIMAL:
        return _rescaled(node, operand, min(node.type.scale, operand.type.scale))
    wide = operand.cast(pa.decimal256(operand.type.precision + 1, operand.type.scale))
    rounded = pc.round(wide, ndigits=0, round_mode=_ROUND) if operand.type.scale else wide
    digits = rounded.type.precision - rounded.type.scale
    whole = rounded.cast(pa.decimal256(digits, 0))
    if digits < INTEGER_DIGITS[TypeName.INT64]:
        return _in_range(node, whole.cast(pa.int64()))
    found = _guarded(lambda part: part.cast(pa.int64()), node, whole, of_type=pa.int64())
    inner = _in_range(node, found.values)
    return Derived(inner.values, [*found.faults, *inner.faults])


def _in_range(node: Expression, whole: pa.Array) -> Derived:
    """Return whole numbers, in int64 or float64, as the node's type."""
    if whole.type == node.type.arrow:
        return _none(whole)
    limit = pa.scalar(2.0 ** _BITS[node.type.name]).cast(whole.type)
    outside = pc.or_(pc.less(whole, pc.negate(limit)), pc.greater_equal(whole, limit))
    found = _without(whole, _true(outside), node, _OVERFLOW)
    return Derived(found.values.cast(node.type.arrow), found.faults)


def _extracted(node: Expression, operand: pa.Array) -> Derived:
    times = operand.view(_LOCAL) if pa.types.is_timestamp(operand.type) else operand
    return _none(_PARTS[node.value](times).cast(pa.int64()))


_PARTS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "isodow": partial(pc.day_of_week, count_from_zero=False),
    "doy": pc.day_of_year,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}


def _truncated(node: Expression, operand: pa.Array) -> Derived:
    times = operand.view(_LOCAL) if pa.types.is_timestamp(operand.type) else operand
    return _none(pc.floor_temporal(times, unit=node.value, week_starts_monday=True).cast(times.type).view(operand.type))


def _substring(node: Expression, operand: pa.Array) -> Derived:
    return _none(pc.utf8_slice_codeunits(operand, *node.value))


def _simple(kernel: Callable[..., pa.Array]) -> Callable[..., Derived]:
    return lambda _, *operands: _none(kernel(*operands))


_EAGER: Final[Mapping[Op, Callable[..., Derived]]] = {
    Op.ADD: _arithmetic,
    Op.SUBTRACT: _arithmetic,
    Op.MULTIPLY: _arithmetic,
    Op.DIVIDE: _arithmetic,
    Op.NEGATE: _negated,
    Op.CAST: _cast,
    Op.TRY_CAST: _cast,
    Op.ROUND: _rounded,
    Op.EXTRACT: _extracted,
    Op.DATE_TRUNC: _truncated,
    Op.CONCATENATE: _simple(lambda left, right: pc.binary_join_element_wise(left, right, "")),
    Op.SUBSTRING: _substring,
    Op.UPPER: _simple(pc.utf8_upper),
    Op.LOWER: _simple(pc.utf8_lower),
    Op.TRIM: _simple(partial(pc.utf8_trim, characters=" ")),
    Op.LENGTH: lambda _, texts: _none(pc.utf8_length(texts).cast(pa.int64())),
    Op.NOT: _simple(pc.invert),
    Op.IS_NULL: _simple(pc.is_null),
    Op.EQUAL: _simple(pc.equal),
    Op.NOT_EQUAL: _simple(pc.not_equal),
    Op.LESS: _simple(pc.less),
    Op.LESS_OR_EQUAL: _simple(pc.less_equal),
    Op.GREATER: _simple(pc.greater),
    Op.GREATER_OR_EQUAL: _simple(pc.greater_equal),
}
