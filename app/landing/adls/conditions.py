"""Trying out which conditions on ETags a DFS service heeds, by requests that must not be carried out.

After each the path is looked at: what the service answered says less than what stands there.
"""

from collections.abc import Callable, Iterator
from uuid import uuid4

from app.domain.preflight.zone_findings import Seen, ZoneCheck
from app.landing.adls.client import AdlsClient, PathProperties
from app.landing.adls.retries import Retries, StorageRejected
from app.landing.zone import LandingZone


def supported_conditions(zone: LandingZone, client: AdlsClient, retries: Retries, folder: str) -> Iterator[Seen]:
    """One result per condition that renames and deletes rely on; stops at a fault of the service itself."""
    probe = _Probe(zone, client, retries, folder)
    tries = {
        ZoneCheck.RENAME_CONDITION: probe.rename_onto_existing,
        ZoneCheck.SOURCE_ETAG: probe.rename_of_changed,
        ZoneCheck.CONDITIONAL_DELETE: probe.delete_of_changed,
    }
    for check, attempt in tries.items():
        try:
            yield Seen(check, attempt())
        except OSError as error:
            yield Seen(check, f"it could not be tried out: {error}")
            return


class _Probe:
    def __init__(self, zone: LandingZone, client: AdlsClient, retries: Retries, folder: str) -> None:
        self._zone, self._client, self._retries, self._folder = zone, client, retries, folder

    def rename_onto_existing(self) -> str | None:
        source, _, found = self._changed_file()
        target, _, existing = self._changed_file()
        status = self._attempt(lambda: self._client.rename(source, target, found.etag, new_only=True))
        if not self._stands(target, existing) or not self._stands(source, found):
            return "the service ignores the condition that a rename must not replace"
        return f"the service rejects the condition that a rename must not replace: {status}" if status == 400 else None

    def rename_of_changed(self) -> str | None:
        source, stale, found = self._changed_file()
        self._attempt(lambda: self._client.rename(source, f"{source}-moved", stale, new_only=False))
        return None if self._stands(source, found) else "a file that had changed was renamed all the same"

    def delete_of_changed(self) -> str | None:
        file, stale, found = self._changed_file()
        self._attempt(lambda: self._client.delete(file, PathProperties(False, found.size, stale, None)))
        if not self._stands(file, found):
            return "a file that had changed was deleted all the same"
        below = self._look(self._folder)
        self._attempt(lambda: self._client.delete(self._folder, PathProperties(True, 0, stale, None)))
        return None if below and self._look(self._folder) else "a folder that had changed was deleted all the same"

    def _changed_file(self) -> tuple[str, str, PathProperties]:
        """The path of a file in the place of an earlier one, that one's ETag, and what stands there now."""
        path = f"{self._folder}/{uuid4().hex}"
        self._zone.create_file(path, b"old")
        old = self._found(path)
        self._zone.create_file(f"{path}-new", b"new")
        self._zone.replace_file(f"{path}-new", path)
        return path, old.etag, self._found(path)

    def _found(self, path: str) -> PathProperties:
        found = self._look(path)
        if found is None:
            raise FileNotFoundError(path)
        return found

    def _attempt(self, request: Callable[[], None]) -> int:
        """The status with which the service rejected, 0 when it did not."""

        def step(_: bool) -> int:
            try:
                request()
            except StorageRejected as rejected:
                return rejected.status
            return 0

        return self._retries.run(step)

    def _stands(self, path: str, before: PathProperties) -> bool:
        now = self._look(path)
        return now is not None and now.etag == before.etag

    def _look(self, path: str) -> PathProperties | None:
        return self._retries.run(lambda _: self._client.head(path))
