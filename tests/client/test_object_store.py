"""Errors and contents of the bridge's sources."""

from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from mirrorgate import bucket as bucket_module
from mirrorgate import object_store as store_module
from mirrorgate.bucket import BucketStore
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.object_store import open_store, read_small

BUCKET = "https://account.blob.core.windows.net/c"


@pytest.mark.parametrize("query", ["sv=1&sig=secret", "se=2026-01-01T00:00:00Z&sig=secret"])
@pytest.mark.parametrize("following", ["", ": connection refused", " in 3ms"])
def test_an_error_shows_no_password_or_signature_of_an_address(query: str, following: str) -> None:
    address = BUCKET.replace("//", "//user:p@ss@")
    store = BucketStore(f"{address}?{query}", {})
    error = store.error(OSError(f"GET {address}?{query}{following}"))
    assert error.detail == f"{BUCKET}: GET {BUCKET}{following}"


@pytest.mark.parametrize("size", [0, 5, 6])
def test_an_object_is_read_whole_or_in_blocks_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(bucket_module, "_WHOLE_BYTES", 5)
    store = BucketStore(BUCKET, {})
    store._store = MemoryStore()
    obstore.put(store._store, "o", b"x" * size)
    assert read_small(store, "o") == b"x" * size


def test_a_description_beyond_its_limit_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_SMALL_BYTES", 20)
    store = open_store(str(tmp_path), {})
    for size in (20, 21):
        (tmp_path / f"{size}.dfm").write_bytes(b"x" * size)
    assert read_small(store, "20.dfm") == b"x" * 20
    with pytest.raises(RejectedInput) as rejected:
        read_small(store, "21.dfm")
    assert (rejected.value.code, "21.dfm" in rejected.value.detail) == (Code.UNREADABLE_RECORD, True)
