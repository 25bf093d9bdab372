"""A zone that Mirrorgate's own drain writes has neither an error nor a warning, in a folder and in OneLake."""

from pathlib import Path

import sqlalchemy as sa

from app.domain.model.landing_file import file_name
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber
from app.landing.local_zone import LocalZone
from app.landing.open_zone import open_zone
from app.landing.publish import announce_partner
from app.settings import Settings
from app.staging.tables.registration import register_table
from mirrorgate_zone.emulator import OneLake, Trust
from mirrorgate_zone.verify.codes import FindingCode
from mirrorgate_zone.verify.table_verification import ZoneVerification, require_landing_zone
from spark_jobs.drain_cycle import DrainCycle
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, inserts, registered, stage, stage_keys, typed
from tests.support.onelake.clients import onelake_address
from tests.support.postgres import sql
from tests.support.samples.schemas import EVERY_TYPE, FULL_ROW, ID, schema_of
from tests.support.small_drain import publish_pending
from tests.verify.runs import findings, run_once

KEYLESS = schema_of({"id": "int64"}, [])


def publish(engine: sa.Engine, cycle: DrainCycle) -> None:
    """Publish three files of each of three tables: with a key, of every type with a schema, and without keys.

    The last has the defaults of a new table: a seed file before the others, and no row marker.
    """
    announce_partner(cycle.context.zone, cycle.context.worker_id, Settings().partner_events)
    for name, schema in (("t", ID), ("sales.orders", EVERY_TYPE)):
        registered(engine, name, schema)
    sql.call(engine, register_table, TableName.parse("events"), KEYLESS)
    for key in (1, 2, 3):
        stage_keys(engine, current(engine, "t"), [key])
        stage_keys(engine, current(engine, "events"), [key])
        orders = current(engine, "sales.orders")
        stage(engine, [typed(orders, inserts([(FULL_ROW if key > 1 else {}) | {"id": key}]))])
        publish_pending(cycle)


def test_a_folder_has_no_finding_at_all(engine: sa.Engine, landing_zone: Path, new_drain: NewDrain) -> None:
    publish(engine, new_drain())
    verification = ZoneVerification(LocalZone(landing_zone))
    assert run_once(verification) == []
    assert (verification.tables, verification.files) == (3, 10)


def test_a_zone_whose_files_are_partly_consumed_has_no_finding(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain
) -> None:
    publish(engine, new_drain())
    for number, consumed in ((1, "_FilesReadyToDelete"), (2, "_ProcessedFiles")):
        (landing_zone / "t" / consumed).mkdir()
        path = landing_zone / "t" / file_name(FileNumber(number))
        path.rename(landing_zone / "t" / consumed / path.name)
    assert findings(landing_zone) == []
    (landing_zone / "t" / "_FilesReadyToDelete" / file_name(FileNumber(1))).unlink()
    assert findings(landing_zone) == []


def test_onelake_has_no_finding_at_all(engine: sa.Engine, onelake: OneLake, trust: Trust, new_drain: NewDrain) -> None:
    address = onelake_address(onelake, trust)
    publish(engine, new_drain(zone=address))
    verification = ZoneVerification(open_zone(address))
    require_landing_zone(open_zone(address), address.location)
    assert run_once(verification) == []
    assert (verification.tables, verification.files) == (3, 10)


def test_a_fault_in_onelake_is_found(engine: sa.Engine, onelake: OneLake, trust: Trust, new_drain: NewDrain) -> None:
    address = onelake_address(onelake, trust)
    publish(engine, new_drain(zone=address))
    zone = open_zone(address)
    zone.create_file(f"t/{file_name(FileNumber(5))}", b"")
    found = {(finding.code, finding.file) for finding in findings(zone, row_checks=())}
    assert found == {
        (FindingCode.NUMBER_GAP, f"t/{file_name(FileNumber(4))}"),
        (FindingCode.ZERO_BYTE_FILE, f"t/{file_name(FileNumber(5))}"),
    }
