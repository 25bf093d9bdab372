"""Direct access to the database and the landing zone, for commands that do not go through the API.

The API never sees the landing zone: it may run where no zone is mounted and no OneLake credential is set. Import this
module only inside a command: it imports SQLAlchemy and PyArrow.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.domain.publication import described
from app.landing.open_zone import ZoneAddress
from app.observability.telemetry import configure_logging
from app.settings import Settings
from app.staging.connection.database import Engine, disposed, open_engine
from app.staging.connection.schema_revision import require_migrated
from app.staging.ledger.leases import present_zone
from app.zone_settings import zone_address
from mirrorgate.errors import MirrorgateError


def direct_settings(landing_zone: str | None, data_dir: Path) -> Settings:
    """Return the settings, completed from the data directory: its settings file, and a gateway that runs on it."""
    from app.local.data_directory import apply_settings_file
    from app.local.embedded import running_url

    apply_settings_file(data_dir, os.environ)
    settings = Settings.from_environment(landing_zone=landing_zone)
    claimed_zone = data_dir / "landing-zone"
    found: dict[str, object] = {"landing_zone": landing_zone}
    if settings.database_url is None:
        found["database_url"] = running_url(data_dir)
    if settings.landing_zone is None and claimed_zone.is_dir():
        found["landing_zone"] = str(claimed_zone)
    return Settings.from_environment(**found)


@contextmanager
def open_database_and_zone(landing_zone: str | None, data_dir: Path) -> Iterator[tuple[Engine, ZoneAddress]]:
    """Open the database, and the landing zone that is given, else the one that the database publishes into.

    Starts the private Postgres of a stopped `mirrorgate up` for the block. Raises Misconfigured for a missing setting
    or `database_not_migrated`, and what `described` says of an OSError of the zone.
    """
    settings = direct_settings(landing_zone, data_dir)
    with _engine(settings, data_dir) as engine:
        if settings.landing_zone is None and (known := present_zone(engine)) is not None:
            settings = settings.model_copy(update={"landing_zone": known.location})
        try:
            yield engine, zone_address(settings)
        except OSError as error:
            found = described(error)
            raise MirrorgateError(found.code, found.detail, remedy=found.remedy) from error


@contextmanager
def open_database(data_dir: Path) -> Iterator[Engine]:
    """Open the database alone, as `open_database_and_zone` does."""
    settings = direct_settings(None, data_dir)
    with _engine(settings, data_dir) as engine:
        yield engine


@contextmanager
def _engine(settings: Settings, data_dir: Path) -> Iterator[Engine]:
    configure_logging(settings, is_command=True)
    with (
        _database_url(settings, data_dir) as database_url,
        disposed(open_engine(database_url, pool_size=2, application="mirrorgate command")) as engine,
    ):
        require_migrated(engine)
        yield engine


@contextmanager
def _database_url(settings: Settings, data_dir: Path) -> Iterator[str]:
    from app.local.data_directory import DataDirectory
    from app.local.embedded import PrivatePostgres

    if settings.database_url is not None or not (data_dir / "postgres").is_dir():
        yield settings.require_database_url()
        return
    with DataDirectory(data_dir) as directory, PrivatePostgres(directory.path) as postgres:
        yield postgres.url
