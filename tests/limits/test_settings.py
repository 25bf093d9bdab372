"""Limits that contradict each other or can never be met are rejected at the start."""

import pytest

from app.settings import Settings
from mirrorgate.errors import Code, Misconfigured


def test_a_process_has_room_for_one_body_of_the_largest_size_compressed() -> None:
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING) as rejection:
        Settings.from_environment(max_body_bytes=1_000_000, max_bytes_in_memory=1_999_999)
    assert "MIRRORGATE_MAX_BYTES_IN_MEMORY" in rejection.value.detail
    assert "twice MIRRORGATE_MAX_BODY_BYTES" in rejection.value.detail
    assert (
        Settings.from_environment(max_body_bytes=1_000_000, max_bytes_in_memory=2_000_000).bytes_in_memory == 2_000_000
    )


@pytest.mark.parametrize(("body", "room"), [(2**26, 2**28), (2**20, 2**26), (2**30, 2**32)])
def test_the_room_follows_from_the_largest_body_where_it_is_not_set(body: int, room: int) -> None:
    assert Settings.from_environment(max_body_bytes=body).bytes_in_memory == room


@pytest.mark.parametrize(
    "name", ["max_expansion", "max_request_messages", "max_value_bytes", "max_concurrent_requests", "max_backlog_bytes"]
)
def test_a_limit_that_lets_nothing_pass_is_rejected(name: str) -> None:
    with pytest.raises(Misconfigured):
        Settings.from_environment(**{name: 0})


@pytest.mark.parametrize("name", ["alert_url", "fabric_api", "storage_endpoint"])
@pytest.mark.parametrize("address", ["https://[::1", "https://", "https://a b", "https://host:x", "https://host/\n"])
def test_an_address_that_no_client_can_read_is_rejected_at_the_start(name: str, address: str) -> None:
    with pytest.raises(Misconfigured, match=rf"MIRRORGATE_{name.upper()}: (must be|String should)"):
        Settings.from_environment(**{name: address})
    assert Settings.from_environment(**{name: "https://[::1]:8443"})


@pytest.mark.parametrize("name", ["alert_secret", "mask_secret", "oidc_client_secret", "signing_key"])
def test_an_empty_secret_is_rejected(name: str) -> None:
    with pytest.raises(Misconfigured, match=f"MIRRORGATE_{name.upper()}: "):
        Settings.from_environment(**{name: ""})


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("RETENTION_DAYS", 36_525),
        ("AUDIT_DAYS", 36_525),
        ("LOAD_IDLE_HOURS", 876_600),
        ("MIRROR_RETENTION_HOURS", 876_600),
        ("DATABASE_SECONDS", 86_400),
        ("LEASE_SECONDS", 86_400),
        ("MONITORING_SECONDS", 86_400),
        ("FABRIC_POLL_SECONDS", 86_400),
        ("MIRROR_POLL_SECONDS", 86_400),
        ("ALERT_AFTER_SECONDS", 86_400),
    ],
)
def test_a_time_that_postgres_or_a_clock_cannot_count_is_rejected(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"MIRRORGATE_{name}", str(most))
    assert Settings.from_environment().model_dump()[name.lower()] == most
    monkeypatch.setenv(f"MIRRORGATE_{name}", str(10 * most))
    with pytest.raises(Misconfigured, match=f"MIRRORGATE_{name}: .* less than or equal to {most}"):
        Settings.from_environment()


@pytest.mark.parametrize("name", ["SOURCE_INFORMATION", "OIDC_RIGHTS", "MIRROR_STORAGE_OPTIONS"])
@pytest.mark.parametrize("text", ["{secret", "[" * 100_000])
def test_a_setting_that_is_not_json_is_named_without_its_text(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"MIRRORGATE_{name}", "")
    assert Settings.from_environment().model_dump()[name.lower()] == {}
    monkeypatch.setenv(f"MIRRORGATE_{name}", text)
    with pytest.raises(Misconfigured) as rejection:
        Settings.from_environment()
    assert rejection.value.detail == f"MIRRORGATE_{name}: must be a JSON object"
