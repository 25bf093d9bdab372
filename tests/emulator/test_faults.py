"""What goes wrong on purpose."""

import json

import httpx
import pytest
from azure.core.exceptions import AzureError, HttpResponseError

from app.landing.adls.address import StorageAddress, StorageOptions
from app.landing.adls.client import AdlsClient
from app.landing.adls.retries import TransientStorageError
from mirrorgate.errors import Code
from mirrorgate_zone.emulator.emulator import TOKEN
from tests.emulator.conftest import Publisher


def faults(publisher: Publisher, **given: float | bool) -> None:
    publisher.call("PUT", "/_emulator/faults", json=given).raise_for_status()


def test_throttled_requests_say_when_to_come_back(publisher: Publisher) -> None:
    faults(publisher, throttle=1)
    answer = publisher.call("POST", "getMirroringStatus")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    with pytest.raises(HttpResponseError) as rejected:
        publisher.declare("orders", "id")
    assert rejected.value.status_code == 429
    faults(publisher)
    publisher.declare("orders", "id")


def test_a_lost_answer_belongs_to_a_request_that_was_carried_out(publisher: Publisher) -> None:
    faults(publisher, lost_answer=1)
    with pytest.raises(AzureError):
        publisher.store.get_directory_client(f"{publisher.emulator.onelake.landing_zone}/orders").create_directory()
    with pytest.raises(httpx.TransportError):
        publisher.call("POST", "stopMirroring")
    faults(publisher)
    assert publisher.names("") == ["orders"]
    assert publisher.emulator.service.databases[publisher.emulator.addresses.database].status != "Running"


def test_a_token_expires_after_so_many_requests(publisher: Publisher) -> None:
    faults(publisher, expired_token=2)
    assert [publisher.call("POST", "getMirroringStatus").status_code for _ in range(4)] == [200, 200, 401, 200]
    headers = {"X-IDENTITY-HEADER": publisher.emulator.addresses.environment["IDENTITY_HEADER"]}
    address = publisher.emulator.addresses.environment["IDENTITY_ENDPOINT"]
    given = httpx.get(address, params={"resource": "https://api.fabric.microsoft.com"}, headers=headers).json()
    bearer = {"Authorization": f"Bearer {given['access_token']}"}
    fabric = publisher.emulator.addresses.fabric.replace("https:", "http:")
    answers = [httpx.get(f"{fabric}/workspaces", headers=bearer, trust_env=False).status_code for _ in range(4)]
    assert answers == [200, 200, 401, 401]


def test_the_landing_zone_gets_a_new_token_after_one_that_is_revoked(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = publisher.emulator.addresses
    for name, value in addresses.environment.items():
        monkeypatch.setenv(name, value)
    publisher.declare("orders", "id")
    options = StorageOptions(addresses.onelake, authority_file=addresses.certificate)
    client = AdlsClient(StorageAddress.parse(addresses.landing_zone), options)
    assert [*client.listed("")] == ["orders"]
    publisher.emulator.service.storage_tokens.clear()
    with pytest.raises(TransientStorageError) as rejected:
        client.listed("")
    assert rejected.value.meaning is Code.STORAGE_CREDENTIAL
    assert [*client.listed("")] == ["orders"]


def test_a_paused_capacity_hides_onelake_and_stops_the_replicator(publisher: Publisher) -> None:
    publisher.declare("orders", "id")
    faults(publisher, paused_capacity=True)
    assert publisher.call("POST", "getMirroringStatus").json()["status"] == "Paused"
    with pytest.raises(HttpResponseError) as rejected:
        publisher.publish("orders", 1, 0, id=[1])
    assert rejected.value.status_code == 404
    faults(publisher)
    publisher.publish("orders", 1, 0, id=[1])
    publisher.wait_for_rows("SELECT * FROM orders", [[1]])


@pytest.mark.parametrize("given", [{"throttle": 2}, {"unknown": 1}])
def test_a_fault_that_does_not_exist_is_rejected(publisher: Publisher, given: dict[str, float]) -> None:
    answer = publisher.call("PUT", "/_emulator/faults", json=given)
    assert answer.status_code == 400
    assert next(iter(given)) in answer.json()["message"]
    assert not any(publisher.call("GET", "/_emulator/faults").json().values())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("workspaces?continuationToken=x", None),
        ("workspaces/{workspace}/mirroredDatabases", []),
        ("workspaces/{workspace}/mirroredDatabases", {"displayName": "x", "definition": None}),
    ],
)
def test_a_request_of_another_form_is_answered(publisher: Publisher, path: str, content: object) -> None:
    given = {} if content is None else {"json": content}
    address = f"/v1/{path}".format(workspace=publisher.emulator.addresses.workspace)
    answer = publisher.call("GET" if content is None else "POST", address, **given)
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "InvalidInput")


def test_a_token_of_another_audience_is_rejected(publisher: Publisher) -> None:
    storage = publisher.emulator.service.issue("https://storage.azure.com/")
    fabric = publisher.emulator.addresses.fabric.replace("https:", "http:")
    for token, status in ((storage, 401), (TOKEN, 200)):
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{fabric}/workspaces", headers=headers, trust_env=False).status_code == status


@pytest.mark.parametrize("wrong", ["maxResults=x", "maxResults=0", "continuation=x"])
def test_a_listing_with_a_wrong_parameter_is_answered(publisher: Publisher, wrong: str) -> None:
    folder = publisher.emulator.addresses.workspace
    answer = publisher.call("GET", f"/{folder}?resource=filesystem&recursive=false&{wrong}")
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, wrong.partition("=")[0])


def test_sql_only_reads(publisher: Publisher) -> None:
    publisher.mirror_one_row()
    answer = publisher.call("POST", "/sql", content="DELETE FROM orders")
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "bad_query")
    assert "DELETE" in json.dumps(answer.json())


def test_sql_answers_numbers_that_json_lacks_as_text(publisher: Publisher) -> None:
    publisher.mirror_one_row()
    answer = publisher.call("POST", "/sql", content="SELECT 'nan'::DOUBLE AS n, ['inf'::DOUBLE, '-inf'::DOUBLE] AS i")
    assert "NaN," not in answer.text
    assert answer.json()["rows"] == [["NaN", ["Infinity", "-Infinity"]]]
