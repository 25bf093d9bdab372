"""tables.json is found next to the landing zone, in every store."""

from pathlib import Path

import pytest

from app.landing import open_zone
from app.landing.open_zone import ZoneAddress, read_tables_json
from mirrorgate_zone.emulator import OneLake, Trust, answer
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.fixtures import NewOneLake
from tests.support.onelake.mirror import Mirror


def test_beside_a_folder(tmp_path: Path) -> None:
    zone = ZoneAddress(str(tmp_path / "LandingZone"))
    assert read_tables_json(zone) is None
    (tmp_path / "Monitoring").mkdir()
    assert read_tables_json(zone) is None
    (tmp_path / "Monitoring" / "tables.json").write_bytes(b"{}")
    assert read_tables_json(zone) == b"{}"
    assert not (tmp_path / "LandingZone").exists()


def test_beside_a_landing_zone_in_onelake(onelake: OneLake, trust: Trust) -> None:
    assert read_tables_json(onelake_address(onelake, trust)) is None
    Mirror(onelake).consume()
    assert read_tables_json(onelake_address(onelake, trust)) == b'{"tables": []}'


def test_beside_a_folder_of_a_storage_account(new_onelake: NewOneLake, trust: Trust) -> None:
    account = new_onelake(account=True)
    account.tree.write_inside("landing/Monitoring/tables.json", b"[]")
    assert read_tables_json(onelake_address(account, trust)) == b"[]"


def test_one_that_may_not_be_read_is_a_fault_of_the_store(onelake: OneLake, trust: Trust) -> None:
    onelake.faults.plan("head", answer(403, "AuthorizationPermissionMismatch"))
    with pytest.raises(OSError, match="403"):
        read_tables_json(onelake_address(onelake, trust))


def test_one_that_is_too_large_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_zone, "_MAX_BYTES", 3)
    (tmp_path / "Monitoring").mkdir()
    (tmp_path / "Monitoring" / "tables.json").write_bytes(b"[   ]")
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_tables_json(ZoneAddress(str(tmp_path / "zone")))
