"""Errors and contents of the bridge's stores, on a folder."""

from pathlib import Path

import pytest

from app.bridge.objects import store as store_module
from app.bridge.objects.store import ObjectStore
from app.errors import Code, RejectedInput


@pytest.mark.parametrize("query", ["sv=1&sig=secret", "se=2026-01-01T00:00:00Z&sig=secret"])
@pytest.mark.parametrize("following", ["", ": connection refused", " in 3ms"])
def test_an_error_shows_no_signature_of_an_address(tmp_path: Path, query: str, following: str) -> None:
    store = ObjectStore(str(tmp_path), {})
    error = store.error(OSError(f"GET https://account.blob.core.windows.net/c?{query}{following}"))
    assert error.detail == f"{tmp_path}: GET https://account.blob.core.windows.net/c{following}"


@pytest.mark.parametrize("size", [0, 5, 6])
def test_an_object_is_read_whole_or_in_blocks_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(store_module, "_WHOLE_BYTES", 5)
    (tmp_path / "o").write_bytes(b"x" * size)
    assert ObjectStore(str(tmp_path), {}).read("o") == b"x" * size


@pytest.mark.parametrize("whole", [5, 50])
def test_a_description_beyond_its_limit_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(store_module, "_WHOLE_BYTES", whole)
    monkeypatch.setattr(store_module, "MAX_SMALL_BYTES", 20)
    store = ObjectStore(str(tmp_path), {})
    for size in (20, 21):
        (tmp_path / f"{size}.dfm").write_bytes(b"x" * size)
    assert store.read("20.dfm") == b"x" * 20
    with pytest.raises(RejectedInput) as rejected:
        store.read("21.dfm")
    assert (rejected.value.code, "21.dfm" in rejected.value.detail) == (Code.UNREADABLE_RECORD, True)
