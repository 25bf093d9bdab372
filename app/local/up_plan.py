"""Check what `mirrorgate up` is going to run, before it creates a folder or starts a process."""

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.errors import Code, Misconfigured
from app.landing.open_zone import ZoneAddress
from app.local.embedded import DataDirectory, find_programs, require_java
from app.settings import Settings
from app.settings.start_checks import check_serving, free_port
from app.staging.connection.database import check_database_url
from app.zone_settings import zone_address


@dataclass(frozen=True, slots=True)
class UpPlan:
    """A gateway that can be started. `settings` contains the effective landing zone."""

    settings: Settings
    data_dir: Path
    zone: ZoneAddress
    port: int
    mirror_target: str | None = None
    """Where the mirror writes Delta tables; None: no mirror runs."""

    @property
    def zone_folder(self) -> Path | None:
        """The landing zone, if it is a folder of this machine."""
        return None if self.zone.is_remote else Path(self.zone.location)

    @property
    def mirror_folder(self) -> Path | None:
        """The mirror's target, if it is a folder of this machine."""
        return None if self.mirror_target is None or "://" in self.mirror_target else Path(self.mirror_target)

    @property
    def address(self) -> str:
        """The address under which this machine reaches the API."""
        return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.settings.host, self.settings.host)

    @property
    def certificate(self) -> Path | None:
        """The certificate of the API; None without TLS."""
        file = self.settings.tls_certificate_file
        return None if file is None else file.absolute()

    @property
    def url(self) -> str:
        """The URL of the API for clients on this machine."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{scheme}://{host}:{self.port}"


def plan_up(
    settings: Settings,
    data_dir: Path,
    landing_zone: str | None,
    environment: Mapping[str, str],
    *,
    mirror: bool = False,
) -> UpPlan:
    """Check every setting that `up` and its children need, without leaving anything behind.

    `landing_zone` overrides the setting; the default is a folder in `data_dir`. With `mirror`, the default of its
    target is another one. Raises Misconfigured with the variable or option at fault.
    """
    data_dir = data_dir.absolute()
    DataDirectory(data_dir).check()
    if mirror:
        settings = settings.model_copy(update={"mirror_target": settings.mirror_target or str(data_dir / "mirror")})
    location = landing_zone or settings.landing_zone or str(data_dir / "landing-zone")
    settings = settings.model_copy(update={"landing_zone": location})
    zone = zone_address(settings)
    zone.check()
    check_serving(settings)
    port = free_port(settings.host, settings.port)
    if settings.database_url is None:
        find_programs()
    else:
        check_database_url(settings.database_url.get_secret_value())
    require_java(environment)
    if zone.is_remote:
        zone.check_credential()
    else:
        _check_folder(Path(zone.location), Code.LANDING_ZONE_UNUSABLE, "MIRRORGATE_LANDING_ZONE or --landing-zone")
    plan = UpPlan(settings, data_dir, zone, port, settings.require_mirror_target() if mirror else None)
    if plan.mirror_folder is not None:
        _check_folder(plan.mirror_folder, Code.BAD_SETTING, "MIRRORGATE_MIRROR_TARGET")
    return plan


def _check_folder(folder: Path, code: Code, setting: str) -> None:
    """Raise Misconfigured for a path that is not a folder, or can neither be written nor created.

    Permission bits do not tell everything, so the folder is created, and removed again.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "this user may not write it")
    except OSError as error:
        raise Misconfigured(
            code,
            f"{setting}, {folder}: {error.strerror}",
            remedy="Give a folder that this user can create and write.",
        ) from error
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
