"""The object bridge: marks, settings and metrics."""

import json
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from app.yaml_text import BadFile
from mirrorgate.cli.main import app
from mirrorgate.file_content import MAX_CHARACTERS, Mark, digest_of
from mirrorgate.file_paths import FileOrder, PathTemplate, TablePath
from mirrorgate.folder import Found
from mirrorgate_bridge.objects.engine import producer_name, table_depth
from mirrorgate_bridge.objects.settings import ObjectFormat, default_name, read_settings
from mirrorgate_bridge.objects.table import plan, resolved, start_after
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.expositions import check_recorded
from tests.support.http.server import free_port
from tests.support.processes import REPOSITORY, started
from tests.support.waiting import wait_until

KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=400)
NUMBERS = st.integers(0, 10**12)


def found(key: str, modified: int = 0, etag: str = "e") -> Found:
    return Found(key, 1, etag, modified)


def pending(objects: list[Found], mark: Mark | None, order: FileOrder = FileOrder.NAME) -> list[str]:
    return [one.key for one in plan(objects, mark, order, {}, first=False).pending]


@given(KEYS, NUMBERS, st.none() | st.integers(0, 10**7), NUMBERS)
def test_a_position_is_short_visible_and_finds_its_object_again(
    key: str, newest: int, after: int | None, end: int
) -> None:
    part = (after, end, digest_of("c")) if after is not None else (None, 0, "")
    mark = Mark(key, digest_of("e"), newest, *part)
    text = mark.encoded()
    assert len(text) <= MAX_CHARACTERS
    assert text.isascii()
    assert text.isprintable()
    read = Mark.decoded(text)
    others = [found(key + "x"), found(key[:-1] + "y"), found(key[:120])]
    assert resolved(read, [*others, found(key)]) == mark
    assert (start_after(read, FileOrder.NAME) or "") <= key


@given(st.lists(st.text("ab/", min_size=1, max_size=4), unique=True, max_size=12), st.data())
def test_what_follows_a_mark_is_pending_whatever_the_listing_began_with(keys: list[str], data: st.DataObject) -> None:
    objects = [found(key) for key in keys]
    assert pending(objects, None) == sorted(keys)
    if keys:
        key = data.draw(st.sampled_from(keys))
        mark = Mark(key, digest_of("e"), 0, data.draw(st.none() | st.just(1)))
        after = start_after(mark, FileOrder.NAME)
        listed = [one for one in objects if after is None or one.key > after]
        expected = sorted(other for other in keys if other > key)
        assert pending(listed, mark) == ([key] if mark.next_message else []) + expected


def test_objects_before_the_mark_are_told_apart() -> None:
    mark = Mark("m", digest_of("e"), 100)
    objects = [found("a", 5), found("b", 101), found("c", 5, "new"), found("m", 100, "new"), found("z")]
    known = {"a": digest_of("e"), "c": digest_of("e")}
    planned = plan(objects, mark, FileOrder.NAME, known, first=False)
    assert (planned.late, planned.changed, [one.key for one in planned.pending]) == (("b",), ("c", "m"), ["z"])
    at_start = plan([found("a", 5), found("b", 101)], mark, FileOrder.NAME, {}, first=True)
    assert at_start.late == ("b",)


def test_a_partly_read_object_that_is_gone_is_told_and_a_rewritten_one_is_read_on() -> None:
    mark = Mark("m", digest_of("e"), 100, 7)
    assert plan([found("z")], mark, FileOrder.NAME, {}, first=True).gone == "m"
    assert pending([found("m", 200, "new"), found("z")], mark) == ["m", "z"]
    assert pending([found("a", 300), found("m", 200, "new")], mark, FileOrder.MODIFIED) == ["m", "a"]


def test_a_cut_key_that_no_object_fits_is_lost() -> None:
    mark = Mark.decoded(Mark("k" * 500, "e", 1).encoded())
    assert plan([found("k" * 499)], mark, FileOrder.NAME, {}, first=True).is_lost


def test_producers_of_tables_differ_and_are_valid() -> None:
    paths = [
        TablePath("s.t"),
        TablePath("s.t", {"mode": "snapshot"}),
        TablePath(None),
        TablePath("s.é"),
        TablePath("x" * 300),
    ]
    names = [producer_name("lake", "in", path) for path in paths]
    assert names[0] == "objects:lake/in/s.t"
    assert len(set(names)) == len(paths)
    assert all(len(name) <= 255 and name.isascii() and name.isprintable() and " " not in name for name in names)


def test_templates_with_one_folder_for_each_table_are_listed_by_table() -> None:
    depths = {
        "{schema}/{table}/…": 2,
        "a/{table}/*.json": 2,
        "{table}_*.csv": 0,
        "**/{table}/*": 0,
        "{schema}/{table}.csv": 0,
        "in/{mode}/{schema}.{table}/…": 3,
        "{table}/{day}/…": 1,
        "{day}/{table}/…": 0,
        "*/{table}/…": 0,
        "{table}/{mode}-{day}/…": 1,
    }
    assert {text: table_depth((PathTemplate.parse(text),)) for text in depths} == depths


ENVIRONMENT = {"MIRRORGATE_API_KEY": "mg_1"}


def test_the_example_is_valid_and_has_the_defaults() -> None:
    settings = read_settings(REPOSITORY / "deploy/bridge/objects.yaml", ENVIRONMENT)
    (source,) = settings.sources
    assert (settings.name, source.name, source.format) == ("lake", "arcion", ObjectFormat.ARCION)
    assert (source.order, source.settle, source.late, source.on_reject) == (FileOrder.NAME, 0.0, "stop", "stop")
    assert (settings.poll, settings.recheck, settings.batch.max_bytes) == (10.0, 600.0, 8 * 2**20)


def test_defaults_follow_the_store_and_the_format(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(
        """
        name: n
        gateway: {url: http://g, key: k}
        sources:
          - {url: 'abfss://c@a.dfs.core.windows.net/x', format: replicate-files, table: t}
          - {url: /mnt/x, format: rows, table: t, done_marker: .ok, parameters: {null: ''}}
          - {url: s3://b, format: rows, table: t, order: modified}
        """
    )
    azure, folder, by_time = read_settings(file, {}).sources
    assert (azure.order, azure.settle, azure.name) == (
        FileOrder.LOAD_FIRST,
        5.0,
        "abfss-c@a.dfs.core.windows.net-x",
    )
    assert folder.parameters == {"null": ""}
    assert (folder.settle, folder.names.done_marker, folder.name) == (0.0, ".ok", "-mnt-x")
    names = {default_name(url) for url in ("/mnt/é", "/mnt/è", f"/a/{'x' * 100}", f"/b/{'x' * 100}")}
    assert (len(names), max(map(len, names))) == (4, 100)
    assert default_name("https://user:secret@host/x?sig=secret") == "https-host-x"
    assert by_time.settle == 5.0  # the times of S3 are whole seconds


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(
        """name: a/b
gateway: {url: http://g, key: k}
sources:
  - {url: s3://b, format: rows}
  - {url: s3://c, format: parquet, table: t}
  - {url: s3://d, format: arcion, table_from_path: '{schema}/…', setle: 3 s}
  - {url: s3://e, format: arcion, parameters: {table: t}, key_columns: id}
poll: often
"""
    )
    with pytest.raises(BadFile) as raised:
        read_settings(file, {})
    told = [raised.value.detail, *(error["detail"] for error in raised.value.errors)]
    for said in (
        "line 1: name: is not a name",
        "line 4: sources[0]: rows name no table",
        "'parquet' is not a valid value",
        "has no {table}",
        "line 6: sources[2].setle: unknown key (Did you mean settle?",
        "sources[3].parameters.table: is set by the bridge",
        "key_columns is a setting of replicate-files",
        "line 8: poll: 'often' is not a duration",
    ):
        assert any(said in line for line in told), (said, told)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either a SOURCE or --config"),
        (["s3://b", "--config", "x"], "give either a SOURCE or --config"),
        (["s3://b"], "--format must be one of arcion"),
        (["s3://b", "--format", "rows"], "requires --table or --table-from-path"),
        (["s3://b", "--format", "arcion", "--table-from-path", "{x}/"], "has no {table}"),
        (["s3://b", "--format", "arcion", "--option", "region"], "must be NAME=VALUE; region has no value"),
        (["s3://b", "--format", "arcion", "--name", "é"], "name is not a name. Use up to 100 visible ASCII"),
        (["s3://b", "--format", "arcion", "--parameter", "table=t"], "parameters.table is set by the bridge. Write it"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(arguments: list[str], said: str) -> None:
    ran = CliRunner().invoke(app, ["bridge", "objects", *arguments, "--key", "k"])
    assert ran.exit_code == 2
    assert said in " ".join(ran.output.replace("│", "").split())


def test_the_metrics_name_a_stopped_table(gateway: Gateway, tmp_path: Path) -> None:
    gateway.register("o.orders", {"id": "int64"}, ["id"]).raise_for_status()
    lake, port = tmp_path / "lake", free_port()
    lake.mkdir()
    (lake / "1.json").write_text(json.dumps({"id": 1}))
    file = tmp_path / "bridge.yaml"
    source = {"url": str(lake), "name": "lake", "format": "rows", "table": "o.orders", "settle": "0 s"}
    settings = {"name": "b", "gateway": {"url": gateway.address, "key": ADMIN_KEY}, "sources": [source]}
    file.write_text(json.dumps({**settings, "poll": "0.1 s", "recheck": "1 s", "health": {"port": port}}))

    def metrics() -> str:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        except httpx.ConnectError:
            return ""

    labels = '{source="lake",table="o.orders"}'
    with started("mirrorgate.cli", "bridge", "objects", "--config", file):
        read = f"mirrorgate_bridge_objects_objects_total{labels} 1.0"
        wait_until(lambda: read in metrics(), within=30, what="the first object is read")
        healthy = metrics()
        (lake / "2.json").write_text(json.dumps({"id": "no number"}))
        stopped = f"mirrorgate_bridge_objects_stopped{labels} 1.0"
        wait_until(lambda: stopped in metrics(), within=30, what="the table stops")
        check_recorded("object_bridge", healthy, {"stopped": metrics()})
