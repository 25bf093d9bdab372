"""Valid values of MIRRORGATE_LANDING_ZONE, and the store that each opens."""

import pickle
import sys
from pathlib import Path

import pytest

from app.landing.adls.address import StorageAddress, StorageOptions
from app.landing.adls.zone import AdlsZone
from app.landing.local_zone import LocalZone
from app.landing.open_zone import ZoneAddress, open_zone
from app.settings import Settings
from mirrorgate.errors import Code, Misconfigured
from mirrorgate_zone.emulator import ITEM, WORKSPACE
from tests.support.onelake.clients import FixedToken

ONELAKE = "onelake.dfs.fabric.microsoft.com"
GUIDS = StorageAddress(ONELAKE, WORKSPACE[0], f"{ITEM[0]}/Files/LandingZone")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (f"abfss://{WORKSPACE[0]}@{ONELAKE}/{ITEM[0]}/Files/LandingZone", GUIDS),
        (f"abfss://{WORKSPACE[0]}@{ONELAKE}/{ITEM[0]}/Files/LandingZone/", GUIDS),
        (f"https://{ONELAKE}/{WORKSPACE[0]}/{ITEM[0]}/Files/LandingZone", GUIDS),
        (
            f"https://{ONELAKE}/My%20workspace/a.MirroredDatabase/Files/LandingZone",
            StorageAddress(ONELAKE, "My workspace", "a.MirroredDatabase/Files/LandingZone"),
        ),
        (
            f"abfss://My%20workspace@{ONELAKE}/a.MirroredDatabase/Files/x/y",
            StorageAddress(ONELAKE, "My workspace", "a.MirroredDatabase/Files/x/y"),
        ),
        (
            f"abfss://Sales [test]@{ONELAKE}/a.MirroredDatabase/Files/x",
            StorageAddress(ONELAKE, "Sales [test]", "a.MirroredDatabase/Files/x"),
        ),
        (
            "abfss://container@account.dfs.core.windows.net/some/path",
            StorageAddress("account.dfs.core.windows.net", "container", "some/path"),
        ),
        (
            "https://account.dfs.core.usgovcloudapi.net:443/container/path",
            StorageAddress("account.dfs.core.usgovcloudapi.net", "container", "path"),
        ),
    ],
)
def test_an_address_names_host_workspace_and_folder(url: str, address: StorageAddress) -> None:
    assert StorageAddress.parse(url) == address


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://bucket/path", "scheme"),
        (f"abfs://w@{ONELAKE}/i/Files/LandingZone", "scheme"),
        (f"http://{ONELAKE}/w/i/Files/LandingZone", "scheme"),
        ("abfss://c@account.blob.core.windows.net/path", "host"),
        ("abfss://c@account.dfs.core.windows.net/path?sv=2021-08-06&sig=secret", "query"),
        ("abfss://c:secret@account.dfs.core.windows.net/path", "password"),
        ("abfss://c@account.dfs.core.windows.net:444/path", "MIRRORGATE_STORAGE_ENDPOINT"),
        ("https://c@account.dfs.core.windows.net/c/path", "names the workspace or container in its path"),
        ("abfss://account.dfs.core.windows.net/path", "no folder"),
        ("abfss://c@account.dfs.core.windows.net", "no folder"),
        ("abfss://c@account.dfs.core.windows.net/a/../b", r"\.\."),
        ("abfss://c@account.dfs.core.windows.net/a%2Fb", "encoded /"),
        (f"abfss://w@{ONELAKE}/i", "folder Files"),
        (f"abfss://w@{ONELAKE}/i/Tables/x", "folder Files"),
        (f"abfss://{WORKSPACE[0]}@{ONELAKE}/orders.MirroredDatabase/Files/LandingZone", "GUIDs for both"),
        (f"abfss://w@{ONELAKE}/{ITEM[0]}/Files/LandingZone", "GUIDs for both"),
        (f"abfss://w@{WORKSPACE[0]}.z61.dfs.fabric.microsoft.com/{ITEM[0]}/Files/LandingZone", "GUIDs for both"),
    ],
)
def test_any_other_address_is_rejected_and_no_secret_is_repeated(url: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why) as rejection:
        ZoneAddress(url).check()
    assert rejection.value.code is Code.LANDING_ZONE_UNSUPPORTED
    assert "secret" not in rejection.value.detail + rejection.value.remedy


def test_a_path_opens_a_folder_and_an_address_a_remote_zone(tmp_path: Path) -> None:
    assert isinstance(open_zone(ZoneAddress(str(tmp_path / "zone"))), LocalZone)
    address = ZoneAddress(
        f"https://{ONELAKE}/w/i.MirroredDatabase/Files/LandingZone", StorageOptions(credential=FixedToken)
    )
    assert isinstance(open_zone(address), AdlsZone)
    assert open_zone(pickle.loads(pickle.dumps(address))) is open_zone(address)


def test_a_missing_package_and_an_unknown_version_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"https://{ONELAKE}/w/i.MirroredDatabase/Files/LandingZone"
    with pytest.raises(Misconfigured, match="MIRRORGATE_STORAGE_API_VERSION"):
        open_zone(ZoneAddress(url, StorageOptions(api_version="1999-01-01", credential=FixedToken)))
    monkeypatch.delitem(sys.modules, "app.landing.adls.client")
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(Misconfigured, match=r"not installed: azure\.identity"):
        ZoneAddress(url).check()


def test_a_remote_zone_is_published_into_less_often(tmp_path: Path) -> None:
    url = f"https://{ONELAKE}/w/i/Files/LandingZone"
    assert Settings(landing_zone=str(tmp_path)).max_delay == 1.0
    assert Settings(landing_zone=url).max_delay == 30.0
    assert Settings(landing_zone=url, max_delay_seconds=0.0).max_delay == 0.0
    assert Settings(landing_zone=url).require_landing_zone() == url
