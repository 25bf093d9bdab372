"""API, drain and mirror together: what is posted is in the Delta table, and the API says how far it is and shows it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from deltalake import write_deltalake

from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.published.table_files import list_tables
from app.staging.mirror import store_reports
from spark_jobs.drain_cycle import DrainCycle
from tests.api.calls import Gateway, insert, own_gateway, problem
from tests.drain.conftest import NewDrain
from tests.support.samples import messages
from tests.support.small_drain import publish_pending
from tests.support.waiting import wait_until

TABLE = "sales.orders"


class Mirrored:
    """A gateway with a drain, and a mirror that runs when it is told to."""

    def __init__(self, client: Gateway, engine: sa.Engine, zone: Path, target: Path, drain: DrainCycle) -> None:
        self.client = client
        self._engine = engine
        self.folder = zone / "sales.schema" / "orders"
        self.delta_folder = target / "sales" / "orders"
        self._zone = LocalZone(zone)
        self._target = MirrorTarget(str(target))
        self._drain = drain

    def register(self, *, seed_file: bool = False) -> None:
        columns = {"id": "int64", "note": "string"}
        self.client.register(TABLE, columns, ["id"], seed_file=seed_file).raise_for_status()

    def publish(self, *changes: dict[str, Any]) -> None:
        """Post each change and publish it as one file."""
        for change in changes:
            self.client.arcion(change).raise_for_status()
            publish_pending(self._drain)

    def drop(self) -> None:
        """Drop the table and wait until its folder is gone."""
        self.client.delete(f"/v1/tables/{TABLE}", params={"generation": 1}).raise_for_status()

        def is_dropped() -> bool:
            publish_pending(self._drain)
            return self.client.get(f"/v1/tables/{TABLE}").status_code == 404

        wait_until(is_dropped, within=30, what="the table is dropped")

    def mirror(self) -> None:
        """Apply one commit to each table, and store the reports."""
        tables = list_tables(self._zone)
        reports = [advance_table(self._zone, self._target, table, MirrorLimits(max_files=2)) for table in tables]
        store_reports(self._engine, reports)

    def progress(self) -> tuple[Any, ...]:
        told = self.client.get(f"/v1/tables/{TABLE}/mirror").raise_for_status().json()
        return tuple(told[name] for name in ("state", "version", "file_number", "published_file", "pending_files"))

    def reason(self) -> str:
        told: str = self.client.get(f"/v1/tables/{TABLE}/mirror").raise_for_status().json()["reason"]["code"]
        return told

    def rows(self, **query: int) -> dict[int, str]:
        page = self.client.get(f"/v1/tables/{TABLE}/rows", params=query).raise_for_status().json()
        return {row["id"]: row["note"] for row in page["rows"]}


@pytest.fixture
def mirrored(
    database_url: str, engine: sa.Engine, landing_zone: Path, tmp_path: Path, new_drain: NewDrain
) -> Iterator[Mirrored]:
    target = tmp_path / "mirror"
    with own_gateway(database_url, mirror_target=str(target)) as client:
        yield Mirrored(client, engine, landing_zone, target, new_drain())


def test_posted_changes_are_read_back_at_each_version(mirrored: Mirrored) -> None:
    mirrored.register(seed_file=True)
    problem(mirrored.client.get(f"/v1/tables/{TABLE}/mirror"), 404, "not_mirrored")
    mirrored.publish(insert(TABLE, id="1", note="a"), insert(TABLE, id="2", note="b"))
    mirrored.publish(messages.arcion(TABLE, {"id": "1", "note": "a"}, {"id": "1", "note": "changed"}))
    mirrored.mirror()
    assert mirrored.progress() == ("behind", 0, 2, 4, 2)
    assert mirrored.rows() == {1: "a"}
    mirrored.mirror()
    assert mirrored.progress() == ("in_step", 1, 4, 4, 0)
    assert mirrored.rows() == {1: "changed", 2: "b"}
    assert mirrored.rows(version=0) == {1: "a"}
    mirrored.publish(messages.arcion(TABLE, {"id": "2", "note": "b"}, None))
    assert mirrored.progress() == ("behind", 1, 4, 5, 1)
    mirrored.mirror()
    assert mirrored.rows() == {1: "changed"}


def test_a_table_that_is_dropped_and_registered_again_is_mirrored_from_its_first_file(mirrored: Mirrored) -> None:
    mirrored.register()
    mirrored.publish(insert(TABLE, id="1", note="old"), insert(TABLE, id="2", note="old"))
    mirrored.mirror()
    mirrored.drop()
    mirrored.register()
    problem(mirrored.client.get(f"/v1/tables/{TABLE}/mirror"), 404, "not_mirrored")
    mirrored.publish(*(insert(TABLE, id=str(key), note="new") for key in (5, 6, 7)))
    assert mirrored.rows() == {1: "old", 2: "old"}
    mirrored.mirror()
    mirrored.mirror()
    assert mirrored.progress() == ("in_step", 1, 3, 3, 0)
    assert mirrored.rows() == {5: "new", 6: "new", 7: "new"}


def test_the_reason_of_a_mirror_that_cannot_continue_is_told_until_it_continues(mirrored: Mirrored) -> None:
    mirrored.register()
    mirrored.publish(*(insert(TABLE, id=str(key), note="a") for key in range(5)))
    mirrored.mirror()
    third, fourth = (mirrored.folder / f"{number:020d}.parquet" for number in (3, 4))
    whole = fourth.read_bytes()
    hidden = third.rename(mirrored.folder / "_hidden")
    mirrored.mirror()
    assert (mirrored.progress(), mirrored.reason()) == (("waiting", 0, 2, 5, 3), "landing_file_gap")
    hidden.rename(third)
    fourth.write_bytes(b"no Parquet")
    mirrored.mirror()
    mirrored.mirror()
    assert (mirrored.progress()[0], mirrored.reason()) == ("stopped", "landing_file_unreadable")
    metadata = mirrored.folder / "_metadata.json"
    declared = metadata.read_bytes()
    metadata.write_bytes(b"{")
    mirrored.mirror()
    assert (mirrored.progress()[0], mirrored.reason()) == ("stopped", "landing_metadata_unreadable")
    metadata.write_bytes(declared)
    fourth.write_bytes(whole)
    while mirrored.progress()[0] != "in_step":
        mirrored.mirror()
    assert mirrored.progress()[2:] == (5, 5, 0)
    assert len(mirrored.rows()) == 5


def test_a_delta_table_of_another_writer_is_told_as_the_reason(mirrored: Mirrored) -> None:
    mirrored.register()
    mirrored.publish(insert(TABLE, id="1", note="a"))
    write_deltalake(str(mirrored.delta_folder), pa.table({"x": [1]}))
    mirrored.mirror()
    assert (mirrored.progress()[0], mirrored.reason()) == ("stopped", "mirror_target_foreign")
