"""The pages of API keys: secrets are shown once, and forms are checked."""

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, signed_in

PATH = "/console/keys"
ADMIN_ID = ADMIN_KEY.split("_")[1]
HOSTILE = "<b>.*\"'>\u202etxt"


def secret_in(answer: httpx.Response) -> str:
    """Return the key on the page that shows it."""
    assert answer.status_code == 200, answer.text
    found = re.search(r'value="(mg_[0-9a-f]+_[\w-]+)"', answer.text)
    assert found is not None
    return found[1]


def works(address: str, key: str) -> bool:
    with Gateway.at(address, key) as client:
        return client.get("/v1/tables").status_code == 200


def test_a_key_is_created_and_its_secret_is_on_one_page_that_is_not_kept(browser: Browser, gateway: Gateway) -> None:
    browser.page(f"{PATH}/new")
    day = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
    fields = {"right-read": "on", "right-ingest": "on", "tables": f"*\nsales.*\n{HOSTILE}", "expires": day}
    fields["name"] = "ERP"
    answer = browser.submit(f"{PATH}/new", **fields, hmac="on", requests_per_second="0.5", bytes_per_second="1000")
    assert answer.headers["cache-control"] == "no-store"
    key = secret_in(answer)
    assert 'id="signing"' in answer.text
    _, key_id, secret = key.split("_", maxsplit=2)
    [stored] = [one for one in gateway.listed_keys() if one["id"] == key_id]
    assert (stored["rights"], stored["tables"]) == (["ingest", "read"], ["*", "sales.*", HOSTILE])
    assert stored["name"] == "ERP"
    assert (stored["requests_per_second"], stored["bytes_per_second"], stored["hmac"]) == (0.5, 1000, True)
    assert stored["expires_at"].startswith(day)
    for path in (PATH, f"{PATH}/{key_id}", "/console/audit"):
        page = browser.page(path)
        assert secret not in page
        assert "<b>." not in page
    with gateway.engine.connect() as connection:
        assert secret not in str(connection.execute(sa.text("SELECT k::text FROM mirrorgate.api_keys k")).all())
    [event] = [one for one in gateway.audit() if one["action"] == "create_key"]
    assert (event["subject"], event["details"]["key"]) == (ADMIN_ID, key_id)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "at least one right"),
        ({"right-read": "on", "tables": " \n "}, "at least one table"),
        ({"right-read": "on", "expires": "31.12.2030"}, "must be a date"),
        ({"right-read": "on", "expires": "2001-01-01"}, "in the future"),
        ({"right-read": "on", "requests_per_second": "nan"}, "Requests per second"),
        ({"right-read": "on", "bytes_per_second": "1.5"}, "Bytes per second"),
    ],
)
def test_a_wrong_field_is_named_and_what_was_typed_stays(browser: Browser, fields: dict[str, str], why: str) -> None:
    answer = browser.submit(f"{PATH}/new", **{"tables": "sales.<b>", **fields})
    assert answer.status_code == 400
    assert why in answer.text
    assert ("sales.&lt;b&gt;" in answer.text) == ("\n" not in fields.get("tables", ""))
    assert ('name="right-read" value="on" checked' in answer.text) == ("right-read" in fields)


def test_a_key_is_rotated_with_an_overlap_and_deleted_with_its_id_typed_in(browser: Browser, gateway: Gateway) -> None:
    old = secret_in(browser.submit(f"{PATH}/new", **{"right-read": "on", "tables": "*"}))
    key_id = old.split("_")[1]
    new = secret_in(browser.submit(f"{PATH}/{key_id}/rotate", overlap=3600))
    assert new != old
    assert (works(gateway.address, old), works(gateway.address, new)) == (True, True)
    assert "Former secret" in browser.page(f"{PATH}/{key_id}")
    assert browser.submit(f"{PATH}/{key_id}/rotate", overlap=10**9).status_code == 400
    assert browser.submit(f"{PATH}/{key_id}/delete", key_id="other").status_code == 400
    deleted = browser.submit(f"{PATH}/{key_id}/delete", key_id=f" {key_id} ")
    assert (deleted.status_code, deleted.url.path, key_id in deleted.text) == (200, PATH, False)
    for action in ("", "/rotate", "/delete"):
        path = f"{PATH}/{key_id}{action}"
        gone = browser.submit(path, overlap=0, key_id=key_id) if action else browser.get(path)
        assert gone.status_code == 404
    events = [one["action"] for one in gateway.audit(outcome="done")]
    assert events == ["sign_in", "create_key", "rotate_key", "delete_key"]


def test_the_name_and_the_limits_of_a_key_are_changed_as_the_api_does(browser: Browser, gateway: Gateway) -> None:
    key_id = gateway.new_key("read", bytes_per_second=10**15)["id"]
    path = f"{PATH}/{key_id}"
    assert 'name="bytes_per_second" inputmode="numeric" value="1000000000000000"' in browser.page(path)
    wrong = browser.submit(f"{path}/change", name="x" * 101, requests_per_second="<b>", bytes_per_second="0")
    assert wrong.status_code == 400
    assert "Requests per second must be" in wrong.text
    assert "Bytes per second must be" in wrong.text
    assert "at most 100 characters" in wrong.text
    assert f'value="{"x" * 101}"' in wrong.text
    assert 'value="&lt;b&gt;"' in wrong.text
    changed = browser.submit(f"{path}/change", name=" ERP <b> ", requests_per_second=" 0.5 ", bytes_per_second="")
    assert "The key is changed." in changed.text
    assert "0.5 requests a second" in changed.text
    [stored] = [one for one in gateway.listed_keys() if one["id"] == key_id]
    assert (stored["name"], stored["requests_per_second"], stored["bytes_per_second"]) == ("ERP <b>", 0.5, None)
    [event] = [one for one in gateway.audit() if one["action"] == "update_key"]
    limits = {"requests_per_second": 0.5, "bytes_per_second": None}
    assert event["details"] == {"key": key_id, "name": "ERP <b>", **limits}
    assert browser.submit(f"{PATH}/0000/change").status_code == 404


def test_the_own_key_is_marked(browser: Browser, gateway: Gateway, sign_in: SignIn) -> None:
    other = sign_in("admin")
    [key] = gateway.listed_keys()
    assert "yours" in other.page(PATH)
    assert "You are signed in with this key" in other.page(f"{PATH}/{key['id']}")
    assert "yours" not in browser.page(PATH)


def test_the_name_of_a_key_is_beside_its_id_on_every_page(gateway: Gateway) -> None:
    made = gateway.new_key("admin", name="ERP <b>")
    with signed_in(gateway.address, made["key"]) as user, Gateway.at(gateway.address, made["key"]) as client:
        client.register("t", {"id": "int64"}, ["id"], dead_letters="accept").raise_for_status()
        client.post("/v1/tables/t/pause", params={"generation": 1}).raise_for_status()
        numbered = {"Mirrorgate-Producer": "erp", "Mirrorgate-Producer-Sequence": "1"}
        client.body("rows", b'{"id": "x"}', headers=numbered, table="t", on_reject="dead_letter").raise_for_status()
        [letter] = client.letters("t")
        client.delete(f"/v1/tables/t/dead-letters/{letter['id']}").raise_for_status()
        for path in [
            PATH,
            f"{PATH}/{made['id']}",
            "/console",
            "/console/audit",
            "/console/tables/t/events",
            f"/console/dead-letters/{letter['id']}",
            "/console/producers",
        ]:
            page = user.page(path)
            assert '<span class="who"><bdi>ERP &lt;b&gt;</bdi></span>' in page
            assert page.count("<bdi>ERP &lt;b&gt;</bdi>") >= (2 if path == "/console" else 3), path
            assert made["id"] in page
        found = user.page("/console/audit?subject=erp+%3C")
        assert "pause" in found
        assert "sign_in" in found
        gateway.delete(f"/v1/keys/{made['id']}").raise_for_status()
    with signed_in(gateway.address) as administrator:
        assert "<bdi>ERP &lt;b&gt;</bdi>" in administrator.page("/console/tables/t/events")
        listed = administrator.page(PATH)
        assert f'<span class="mono">{ADMIN_ID}</span> of MIRRORGATE_ADMIN_KEY is not in this list' in listed
        assert '<span class="who"><bdi>MIRRORGATE_ADMIN_KEY</bdi></span>' in listed
