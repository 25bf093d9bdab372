"""The file of the bridge of object storage, and the options of its command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.yaml_text import BadFile
from mirrorgate.cli.main import app
from mirrorgate.file_paths import FileOrder
from mirrorgate_bridge.objects.settings import ObjectFormat, default_name, read_settings
from tests.support.processes import REPOSITORY

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
