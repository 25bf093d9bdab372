"""The commands on mirrored tables read and write a bucket as they do a folder."""

from typing import Any

from typer.testing import CliRunner

from mirrorgate.cli.main import app
from tests.mirror.faults.conftest import some_file
from tests.mirror.model.landed import INSERT, UPSERT, rows_file
from tests.mirror.object_store.conftest import Lake
from tests.support.cli_output import first_json


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
