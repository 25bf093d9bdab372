"""A probe of a landing zone: try in scratch everything that publication needs from it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Protocol, runtime_checkable
from uuid import uuid4

from app.domain.preflight import Seen, ZoneCheck
from app.landing.publish import SCRATCH
from app.landing.zone import FolderRenameUnsupported, LandingZone, PathKind, RenameOutcome, ScratchRevoked

_CONTENT: Final = b"mirrorgate"
Try = Callable[[LandingZone, str], str | None]
"""Tries one thing in a separate folder; returns what went wrong, None if nothing did."""


@runtime_checkable
class ConditionalStore(Protocol):
    """A store whose requests carry conditions on ETags."""

    def supported_conditions(self, folder: str) -> Iterator[Seen]:
        """Yield a result for each condition, tried in a folder that exists."""
        ...


def probe_zone(zone: LandingZone) -> list[Seen]:
    """Try everything in `_scratchPad/probe-<uuid>`, and remove that folder. Stop at the store's first failure.

    A process that dies inside leaves that hidden folder, which a sweep deletes.
    """
    folder = probe_folder()
    try:
        seen = [*_tries(zone, folder)]
    finally:
        left = clean_up(zone, folder)
    return [*seen, left]


def probe_folder() -> str:
    """Return the path of a new probe folder."""
    return f"{SCRATCH}/probe-{uuid4().hex}"


def clean_up(zone: LandingZone, folder: str) -> Seen:
    """Remove a probe folder with its contents; return whether that worked."""
    try:
        with suppress(FileNotFoundError):
            zone.remove_folder(folder, f"{folder}-removed", zone.etag(folder))
    except OSError as error:
        return Seen(ZoneCheck.CLEAN_UP, f"{folder} could not be removed: {error}")
    return Seen(ZoneCheck.CLEAN_UP)


def _tries(zone: LandingZone, folder: str) -> Iterator[Seen]:
    for check, attempt in _TRIES.items():
        try:
            zone.create_folder(f"{folder}/{check}")
            yield Seen(check, attempt(zone, f"{folder}/{check}"))
        except (OSError, ScratchRevoked) as error:
            yield Seen(check, f"it could not be tried: {error}")
            return
    if isinstance(zone, ConditionalStore):
        yield from zone.supported_conditions(folder)


def _write(zone: LandingZone, folder: str) -> str | None:
    zone.create_file(f"{folder}/file", _CONTENT)
    return None if _holds(zone, f"{folder}/file") else "a file that was just written reads otherwise"


def _list(zone: LandingZone, folder: str) -> str | None:
    zone.create_file(f"{folder}/file", _CONTENT)
    return None if zone.names(folder) == ["file"] else "a listing does not show a file that was just written"


def _rename(zone: LandingZone, folder: str) -> str | None:
    zone.create_file(f"{folder}/existing", _CONTENT)
    zone.create_file(f"{folder}/new", b"")
    outcome = zone.rename(f"{folder}/new", f"{folder}/existing")
    if outcome is RenameOutcome.DESTINATION_EXISTS and _holds(zone, f"{folder}/existing"):
        return None
    return f"a rename onto an existing file was not rejected: {outcome}"


def _revoke(zone: LandingZone, folder: str) -> str | None:
    epoch = f"{folder}/1"
    zone.create_folder(epoch)
    zone.create_file(f"{epoch}/file", _CONTENT)
    zone.revoke_folder(epoch)
    try:
        zone.create_file(f"{epoch}/late", b"")
    except ScratchRevoked:
        pass
    else:
        return "a file could be created below a plain file"
    outcome = zone.rename(f"{epoch}/file", f"{folder}/late")
    if zone.kind(epoch) is PathKind.FILE and outcome is RenameOutcome.SOURCE_MISSING:
        return None
    return "what was in a folder can still be renamed after the folder became a plain file"


def _folder_rename(zone: LandingZone, folder: str) -> str | None:
    zone.create_folder(f"{folder}/prepared")
    zone.create_file(f"{folder}/prepared/file", _CONTENT)
    try:
        zone.rename(f"{folder}/prepared", f"{folder}/shown")
    except FolderRenameUnsupported:
        return "the store cannot rename a folder"
    moved = zone.kind(f"{folder}/prepared") is PathKind.ABSENT and _holds(zone, f"{folder}/shown/file")
    return None if moved else "a folder was not renamed with what is in it"


def _recursive_delete(zone: LandingZone, folder: str) -> str | None:
    zone.create_folder(f"{folder}/table/deeper")
    zone.create_file(f"{folder}/table/deeper/file", _CONTENT)
    zone.remove_folder(f"{folder}/table", f"{folder}/removed", zone.etag(f"{folder}/table"))
    gone = zone.kind(f"{folder}/table/deeper/file") is zone.kind(f"{folder}/table") is PathKind.ABSENT
    return None if gone else "a deleted folder is still there"


def _holds(zone: LandingZone, path: str) -> bool:
    with zone.read_file(path) as file:
        return file.read() == _CONTENT


_TRIES: Final[dict[ZoneCheck, Try]] = {
    ZoneCheck.WRITE: _write,
    ZoneCheck.LIST: _list,
    ZoneCheck.RENAME: _rename,
    ZoneCheck.REVOCATION: _revoke,
    ZoneCheck.FOLDER_RENAME: _folder_rename,
    ZoneCheck.RECURSIVE_DELETE: _recursive_delete,
}
