"""FIFOs, sockets and unusual links in a table folder stop that table at once and never block the drain."""

import errno
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
from app.landing.local_zone import LocalZone, open_regular
from app.landing.zone import PathKind
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.samples.odd_files import ODD_FILES
from tests.support.samples.schemas import ID
from tests.support.small_drain import publish_pending

DEADLINE = 20.0

pytestmark = pytest.mark.parametrize("odd", ODD_FILES)


def publish_before_the_deadline(cycle: object) -> None:
    """Publish in a thread, so that a blocked open fails the test instead of hanging it."""
    thread = threading.Thread(target=publish_pending, args=(cycle,), daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert not thread.is_alive(), "the drain hangs"


def test_an_odd_file_under_the_next_number_quarantines_its_table_alone_and_at_once(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain, odd: str
) -> None:
    for name in ("t", "healthy"):
        stage_keys(engine, registered(engine, name, ID), [1])
    cycle = new_drain()
    publish_pending(cycle)
    ODD_FILES[odd](landing_zone / "t" / file_name(FileNumber(2)))
    for name in ("t", "healthy"):
        stage_keys(engine, current(engine, name), [2])
    publish_before_the_deadline(cycle)
    assert current(engine, "t").state is TableState.QUARANTINED
    assert landed_keys(landing_zone, "healthy") == [[1], [2]]


@pytest.mark.parametrize("name", ["_gateway.json", "other"])
def test_an_odd_file_elsewhere_in_the_folder_quarantines_the_table_when_it_is_taken_over(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain, odd: str, name: str
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    publish_pending(new_drain())
    sql.run(engine, "DELETE FROM mirrorgate.workers")
    (landing_zone / "t" / name).unlink(missing_ok=True)
    ODD_FILES[odd](landing_zone / "t" / name)
    stage_keys(engine, current(engine, "t"), [2])
    publish_before_the_deadline(new_drain())
    assert current(engine, "t").state is TableState.QUARANTINED
    assert landed_keys(landing_zone, "t") == [[1]]


def test_an_odd_file_in_the_place_of_the_table_folder_quarantines_the_table(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain, odd: str
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    landing_zone.mkdir()
    ODD_FILES[odd](landing_zone / "t")
    publish_before_the_deadline(new_drain())
    assert current(engine, "t").state is TableState.QUARANTINED


def test_an_odd_file_is_seen_as_such_never_opened_and_revoked_like_a_plain_file(tmp_path: Path, odd: str) -> None:
    zone = LocalZone(tmp_path / "zone")
    zone.create_folder("scratch")
    path = tmp_path / "zone" / "scratch" / "1"
    ODD_FILES[odd](path)
    assert zone.kind("scratch/1") is PathKind.SPECIAL
    assert zone.kinds("scratch") == {"1": PathKind.SPECIAL}
    with pytest.raises(OSError) as rejected, open_regular(path):
        pass
    assert rejected.value.errno in {errno.EINVAL, errno.ENXIO, errno.ELOOP}
    zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1") in {PathKind.FILE, PathKind.SPECIAL}
    assert not path.is_symlink()
