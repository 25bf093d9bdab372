"""Tables in a bucket, by the mirror and by every command."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from typer.testing import CliRunner

from app.mirror.commit import create_table
from app.mirror.target import MirrorTarget, Position, read_position
from app.published.table_files import PublishedTable
from mirrorgate.cli.main import app
from tests.mirror.faults.conftest import some_file
from tests.mirror.model.delta_content import delta_rows
from tests.mirror.model.landed import INSERT, UPSERT, rows_file
from tests.mirror.object_store.conftest import S3, Lake
from tests.support.cli_output import first_json


def test_every_version_of_a_table_in_a_bucket_is_as_the_model_says(lake: Lake) -> None:
    table = lake.begin("sales.schema/Order Lines", *map(some_file, range(1, 6)))
    assert table.catch_up().file_number == 5
    table.land(rows_file((UPSERT, 4, "changed"), (INSERT, 99, None)))
    assert table.catch_up().file_number == 6
    checked = table.check()
    assert (checked.versions, checked.last_file) == (6, 6)


def test_a_recreated_table_keeps_the_rows_of_the_ended_generation_beside_it(lake: Lake) -> None:
    table = lake.begin("sales.schema/größe", some_file(1), some_file(2))
    table.catch_up()
    first = lake.target.open(table.writer.table)
    assert first is not None
    before = delta_rows(first, ["id", "name"])
    table.recreate(rows_file((INSERT, 7, "new")))
    report = table.catch_up()
    assert (report.generation, report.file_number) == (2, 1)
    now, kept = lake.target.open("sales.größe"), lake.target.open("sales.größe@g1")
    assert now is not None
    assert kept is not None
    assert delta_rows(now, ["id", "name"]) == {(7, "new"): 1}
    assert delta_rows(kept, ["id", "name"]) == before
    position = read_position(now)
    assert position is not None
    assert (position.generation, position.file_number) == (2, 1)
    assert lake.target.tables() == ["sales.größe", "sales.größe@g1"]


@pytest.mark.parametrize("name", ["my orders", "Größe", "日本", "a&b=c", "a+b", "a#b", "a%20b", "t@g1", "a'b\"c<d>"])
def test_a_table_of_any_name_is_found_again_with_its_history(s3: S3, name: str) -> None:
    target = s3.target()
    for table in (PublishedTable(None, name, ""), PublishedTable("s [x]", name, "")):
        for _ in range(2):
            write_deltalake(target.uri(table), pa.table({"x": [1]}), mode="append", storage_options=dict(s3.options))
        opened = target.open(table)
        assert opened is not None
        opened.create_checkpoint()
        again = target.open(str(table))
        assert again is not None
        assert len(again.history()) == 2
        assert again.to_pyarrow_dataset().count_rows() == 2
    assert sorted(target.tables()) == sorted([name, f"s [x].{name}"])


def test_a_target_without_a_table_has_none(s3: S3) -> None:
    assert s3.target().tables() == []
    assert s3.target().open("sales.orders") is None


def test_of_several_mirrors_that_create_a_table_one_does(s3: S3) -> None:
    target, table = s3.target(), PublishedTable(None, "orders", "orders")

    def create(file: int) -> bool:
        try:
            create_table(target.uri(table), pa.table({"x": [file]}), Position(1, file), {}, target.open_options())
        except DeltaError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(create, range(1, 5))) == 1
    opened = target.open(table)
    assert opened is not None
    assert opened.to_pyarrow_table().num_rows == 1


def test_a_version_that_is_there_is_never_written_again(s3: S3) -> None:
    target, table = s3.target(), PublishedTable(None, "orders", "orders")
    create_table(target.uri(table), pa.table({"x": [0]}), Position(1, 1), {}, target.open_options())
    one, other = target.open(table), target.open(table)
    assert one is not None
    assert other is not None
    write_deltalake(one, pa.table({"x": [1]}), mode="append")
    write_deltalake(other, pa.table({"x": [2]}), mode="append")
    found = MirrorTarget(target.location, s3.options).open(table)
    assert found is not None
    assert sorted(found.to_pyarrow_table()["x"].to_pylist()) == [0, 1, 2]


def test_every_command_works_on_a_bucket(lake: Lake) -> None:
    table = lake.begin(
        "sales.schema/Order Lines", some_file(1), some_file(2), rows_file((UPSERT, 0, "x"), (INSERT, 9, "y"))
    )
    table.land(rows_file((INSERT, 10, "z")))
    table.catch_up()
    name = "sales.Order Lines"
    options = [part for pair in lake.target.storage_options.items() for part in ("--storage-option", "=".join(pair))]

    def printed(*arguments: str) -> Any:
        answer = CliRunner().invoke(app, ["mirror", *arguments, "--to", lake.target.location, *options, "--json"])
        assert answer.exit_code == 0, answer.output + repr(answer.exception)
        return first_json(answer.stdout)

    (state,) = printed("status", str(lake.root))
    assert (state["table"], state["state"], state["file_number"]) == (name, "in_step", 4)
    assert [entry["files"] for entry in printed("history", name)] == [[4, 4], [3, 3], [2, 2], [1, 1]]
    changes = {(one["change"], one["key"]["Id"]) for one in printed("diff", name, "--file", "3")}
    assert changes == {("update", 0), ("insert", 9)}
    sql = 'SELECT name FROM "Order Lines" WHERE "Id" = 0'
    assert printed("query", sql) == [{"name": "x"}]
    assert printed("query", sql, "--version", "1") == [{"name": "of file 2"}]
    assert printed("health")["tables"][0]["files"] == 2
    (optimized,) = printed("optimize", name, "--cluster")
    assert (optimized["files"], optimized["clustered_by"]) == (1, ["Id"])
    (listed,) = printed("vacuum", name, "--retention", "0", "--force", "--dry-run")
    (vacuumed,) = printed("vacuum", name, "--retention", "0", "--force")
    assert listed["files"] == vacuumed["files"] != []
    assert printed("health")["tables"][0]["old_files"] == 0
    assert printed("query", sql) == [{"name": "x"}]
    table.land(some_file(5))
    assert table.catch_up().file_number == 5
