"""Names of tables and columns, and of landing files with their footers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.landing_file import FileIdentity, content_digest, file_name, parse_file_name
from app.domain.model.names import TableName, check_column_name, check_new_column_name, check_new_table_name
from app.domain.model.table import BatchSequence, FileNumber, Generation
from app.domain.model.table_schema import evolve
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

MAX_NAME = "é" * 64


@pytest.mark.parametrize(
    ("text", "schema", "table", "folder"),
    [
        ("orders", None, "orders", "orders"),
        ("sales.orders", "sales", "orders", "sales.schema/orders"),
        ("Größe", None, "Größe", "Größe"),
        ("two words", None, "two words", "two words"),
        ("a_b", None, "a_b", "a_b"),
        ("数据.表", "数据", "表", "数据.schema/表"),
        ("it's;--", None, "it's;--", "it's;--"),
        (MAX_NAME, None, MAX_NAME, MAX_NAME),
        (f"{MAX_NAME}.{MAX_NAME}", MAX_NAME, MAX_NAME, f"{MAX_NAME}.schema/{MAX_NAME}"),
    ],
)
def test_a_table_name_gives_its_parts_and_its_folder(text: str, schema: str | None, table: str, folder: str) -> None:
    name = TableName.parse(text)
    assert (name.schema, name.table, name.folder, str(name)) == (schema, table, folder, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        ".a",
        "a.b.c",
        "..",
        "../etc",
        "a/b",
        "a\\b",
        "a%2fb",
        "c:",
        "*",
        "a?",
        'a"b',
        "a<b",
        "a>b",
        "a|b",
        "_hidden",
        "_sales.orders",
        "sales._orders",
        " a",
        "a ",
        "a\u00a0",
        "a\nb",
        "a\x00b",
        "a\x7fb",
        "a\ud800",
        "a\u0378",
        "e\u0301",
        "x" * 129,
        "é" * 65,
    ],
)
def test_a_table_name_that_no_folder_can_have_is_rejected(text: str) -> None:
    with rejected(Code.BAD_NAME):
        TableName.parse(text)


@pytest.mark.parametrize(
    ("schema", "table"), [("a.b", "c"), ("a", "b.c"), (None, "a.b"), ("", "a"), ("a", ""), ("_a", "b")]
)
def test_a_dot_in_a_part_never_divides_it(schema: str | None, table: str) -> None:
    with rejected(Code.BAD_NAME):
        TableName.of(schema, table)


def test_parts_and_text_make_the_same_name() -> None:
    assert TableName.of("sales", "orders") == TableName.parse("sales.orders")
    assert TableName.of(None, "orders") == TableName.parse("orders")


@pytest.mark.parametrize(("one", "other"), [("Orders", "ORDERS"), ("Straße", "STRASSE"), ("S.a", "s.A")])
def test_names_that_differ_only_in_case_are_the_same(one: str, other: str) -> None:
    assert TableName.parse(one).folded == TableName.parse(other).folded


@pytest.mark.parametrize("name", ["id", "a.b", "a/b", "50%", "_id", "two words", "Größe", "x" * 128, " padded "])
def test_a_column_may_have_a_name_that_no_folder_could(name: str) -> None:
    check_column_name(name)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", Code.BAD_NAME),
        ("  ", Code.BAD_NAME),
        ("a\tb", Code.BAD_NAME),
        ("a\x00", Code.BAD_NAME),
        ("a\ud800", Code.BAD_NAME),
        ("e\u0301", Code.BAD_NAME),
        ("x" * 129, Code.BAD_NAME),
        ("__rowMarker__", Code.RESERVED_NAME),
        ("__ROWMARKER__", Code.RESERVED_NAME),
        ("__rowmarker__", Code.RESERVED_NAME),
    ],
)
def test_a_column_name_that_no_file_can_have_is_rejected(name: str, code: Code) -> None:
    with rejected() as rejection:
        check_column_name(name)
    assert rejection.code == code


BLANKS = (
    "\u00a0\u00ad\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b\u2002\u200a\u2060\u2800\u3000\u3164\ufe0f\uffa0"
    "\U00016fe4\U0001107f\U0001d159\U0001d173\U000e0020\U000e0100"
)
"""Characters that look like nothing, or like a space."""

LOOK_ALIKES = ["id\u200b", "\u202edi", "i\u2066d", "\ufeffid", "i\u200dd", "id\u2028", *(f"i{one}d" for one in BLANKS)]


@pytest.mark.parametrize("name", [*LOOK_ALIKES, "id ", " id", "__rowMarker__ "])
def test_a_new_column_may_not_look_like_another(name: str) -> None:
    check_column_name(name)  # a table that has it keeps it
    schema = schema_of({"a": "int64", name: "int64"}, ["a"])
    assert evolve(schema, schema) == schema
    with rejected(Code.BAD_NAME):
        check_new_column_name(name)
    with rejected(Code.BAD_NAME):
        evolve(schema_of({"a": "int64"}, ["a"]), schema)


@pytest.mark.parametrize("name", ["größe", "order id", "名前", "नाम", "ชื่อ", "שם", "e\u0331", "🙂"])
def test_every_visible_name_can_be_new(name: str) -> None:
    check_new_column_name(name)
    check_new_table_name(TableName.parse(name))


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_new_table_may_not_look_like_another(name: str) -> None:
    with rejected(Code.BAD_NAME):
        check_new_table_name(TableName.parse(f"s.{name}"))


NUMBERS = st.integers(1, 2**63 - 1)


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "00000000000000000001.parquet"), (2**63 - 1, "09223372036854775807.parquet")],
)
def test_a_file_is_named_by_twenty_digits(number: int, name: str) -> None:
    assert file_name(FileNumber(number)) == name
    assert parse_file_name(name) == number


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1.parquet",
        "000000000000000000001.parquet",
        "00000000000000000001.PARQUET",
        "00000000000000000001.parquet ",
        "00000000000000000001.parquet\n",
        "_00000000000000000001.parquet",
        "0000000000000000000a.parquet",
        "0000000000000000000١.parquet",
        "00000000000000000001-abc.parquet",
    ],
)
def test_any_other_name_is_no_landing_file(name: str) -> None:
    assert parse_file_name(name) is None


@given(table=st.text(min_size=1), numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS), digest=st.binary())
def test_a_footer_gives_back_the_identity_that_was_written(
    table: str, numbers: tuple[int, int, int, int, int], digest: bytes
) -> None:
    generation, number, first, last, rows = numbers
    identity = FileIdentity(
        table, Generation(generation), FileNumber(number), BatchSequence(first), BatchSequence(last), rows, digest.hex()
    )
    footer = {key.encode(): value.encode("utf-8", "replace") for key, value in identity.footer().items()}
    assert FileIdentity.from_footer(footer | {b"writer": b"\xff"}) == identity


IDENTITY = FileIdentity("t", Generation(1), FileNumber(2), BatchSequence(3), BatchSequence(4), 5, "00")
FOOTER = {key.encode(): value.encode() for key, value in IDENTITY.footer().items()}


@pytest.mark.parametrize("missing", FOOTER)
def test_a_footer_that_lacks_a_key_is_not_ours(missing: bytes) -> None:
    assert FileIdentity.from_footer({key: value for key, value in FOOTER.items() if key != missing}) is None


def test_a_footer_with_a_number_that_is_none_is_not_ours() -> None:
    assert FileIdentity.from_footer(FOOTER | {b"mirrorgate.rows": b"many"}) is None
    assert FileIdentity.from_footer({}) is None


def test_the_content_digest_depends_on_the_blocks_and_on_their_order() -> None:
    one, two = b"1" * 32, b"2" * 32
    assert content_digest([one, two]) == content_digest(iter([one, two]))
    assert len({content_digest(blocks) for blocks in ([one, two], [two, one], [one], [two])}) == 4
