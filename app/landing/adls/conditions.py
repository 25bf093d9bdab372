"""A probe of the conditions on ETags that a DFS service obeys, by requests that it must not carry out.

After each request the path is read again: what is there proves more than what the service answered.
"""

from collections.abc import Callable, Iterator
from uuid import uuid4

from app.domain.preflight.zone_findings import Seen, ZoneCheck
from app.landing.adls.client import AdlsClient, PathProperties
from app.landing.adls.retries import Retries, StorageRejected
from app.landing.zone import LandingZone


def supported_conditions(zone: LandingZone, client: AdlsClient, retries: Retries, folder: str) -> Iterator[Seen]:
    """Yield one result per condition that renames and deletes rely on; stop at the service's first failure."""
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
            yield Seen(check, f"it could not be tried: {error}")
            return


class _Probe:
    def __init__(self, zone: LandingZone, client: AdlsClient, retries: Retries, folder: str) -> None:
        self._zone, self._client, self._retries, self._folder = zone, client, retries, folder

    def rename_onto_existing(self) -> str | None:
        source, _, found = self._changed_file()
        target, _, existing = self._changed_file()
        status = self._attempt(lambda: self._client.rename(source, target, found.etag, new_only=True))
        if not self._is_unchanged(target, existing) or not self._is_unchanged(source, found):
            return "the service ignores the condition that a rename must not replace"
        return f"the service rejects the condition that a rename must not replace: {status}" if status == 400 else None

    def rename_of_changed(self) -> str | None:
        source, stale, found = self._changed_file()
        self._attempt(lambda: self._client.rename(source, f"{source}-moved", stale, new_only=False))
        return None if self._is_unchanged(source, found) else "a file that had changed was renamed nevertheless"

    def delete_of_changed(self) -> str | None:
        file, stale, found = self._changed_file()
        self._attempt(lambda: self._client.delete(file, PathProperties(False, found.size, stale, None)))
        if not self._is_unchanged(file, found):
            return "a file that had changed was deleted nevertheless"
        below = self._properties(self._folder)
        self._attempt(lambda: self._client.delete(self._folder, PathProperties(True, 0, stale, None)))
        return (
            None if below and self._properties(self._folder) else "a folder that had changed was deleted nevertheless"
        )

    def _changed_file(self) -> tuple[str, str, PathProperties]:
        """Return the path of a file that replaced another one, the former ETag, and the present properties."""
        path = f"{self._folder}/{uuid4().hex}"
        self._zone.create_file(path, b"old")
        old = self._found(path)
        self._zone.create_file(f"{path}-new", b"new")
        self._zone.replace_file(f"{path}-new", path)
        return path, old.etag, self._found(path)

    def _found(self, path: str) -> PathProperties:
        found = self._properties(path)
        if found is None:
            raise FileNotFoundError(path)
        return found

    def _attempt(self, request: Callable[[], None]) -> int:
        """Return the status with which the service rejected the request, 0 if it did not."""

        def step(_: bool) -> int:
            try:
                request()
            except StorageRejected as rejected:
                return rejected.status
            return 0

        return self._retries.run(step)

    def _is_unchanged(self, path: str, before: PathProperties) -> bool:
        now = self._properties(path)
        return now is not None and now.etag == before.etag

    def _properties(self, path: str) -> PathProperties | None:
        return self._retries.run(lambda _: self._client.head(path))
