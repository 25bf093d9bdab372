"""The bridge on OneLake and on a storage account, with a double of both: listings by the blob service, and tokens."""

import pytest

from mirrorgate.errors import Misconfigured
from mirrorgate_zone.emulator.onelake import ITEM, TOKEN, OneLake, Trust
from tests.api.calls import Gateway
from tests.api.commands import keys
from tests.api.objects.bridging import bridge_of
from tests.support.onelake.fixtures import NewOneLake, new_onelake, trust

__all__ = ["new_onelake", "trust"]


def options(store: OneLake, token: str = TOKEN) -> dict[str, str]:
    return {"endpoint": f"https://127.0.0.1:{store.server.port}", "bearer_token": token}


@pytest.fixture(autouse=True)
def _trusts_the_double(trust: Trust, monkeypatch: pytest.MonkeyPatch) -> None:  # the fixture
    monkeypatch.setenv("SSL_CERT_FILE", str(trust.authority_file))


@pytest.mark.parametrize("is_account", [True, False])
def test_files_of_onelake_and_of_an_account_are_read_by_table(
    gateway: Gateway,
    new_onelake: NewOneLake,
    is_account: bool,
) -> None:
    gateway.register("sales.a", {"id": "int64"}, ["id"])
    store = new_onelake(account=is_account)
    root = "in" if is_account else f"{ITEM[0]}/Files/in"
    for number in range(3):
        store.tree.put(f"{root}/sales/a/{number}.json", b'{"id": %d}' % number, new_only=False, metadata={})
    url = f"abfss://{store.workspace[0]}@{store.hosts['dfs']}/{root}"
    bridge = bridge_of(gateway.address, url, "rows", "{schema}/{table}/…", options=options(store))
    table = bridge.run()["sales.a"]
    assert (table.stop, keys(gateway.engine, "sales.a")) == (None, [0, 1, 2])
    assert bridge.run()["sales.a"].requests == 0


def test_a_wrong_token_is_a_clear_error(api_address: str, new_onelake: NewOneLake) -> None:
    store = new_onelake()
    url = f"abfss://{store.workspace[0]}@{store.hosts['dfs']}/{ITEM[0]}/Files"
    with pytest.raises(Misconfigured, match="rejects the credentials"):
        bridge_of(api_address, url, "rows", table="t", options=options(store, "wrong")).run()
