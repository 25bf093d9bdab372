"""`mirrorgate mirror run`: keep Delta tables in step with a landing zone, or bring them in step once."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from app.cli.mirror.target import StorageOptions, parse_storage_options
from app.cli.options import DEFAULT_DATA_DIR
from app.extras import require_extras


def run(
    zone: Annotated[
        str | None,
        typer.Argument(
            help="Folder or OneLake address of the landing zone, of Mirrorgate or another publisher. Default: "
            "MIRRORGATE_LANDING_ZONE.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Folder, abfss://… or s3://… of the Delta tables. Default: MIRRORGATE_MIRROR_TARGET.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Apply all files that are there, then exit; with status 1 if a table waits or is stopped."
        ),
    ] = False,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="TABLE", help="Mirror this table only, `schema.table` or `table`. Repeatable."),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Delete the Delta table of a dropped and recreated table instead of keeping it as `…@g1`."
        ),
    ] = False,
    files_per_version: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Files that one Delta version can have when the mirror is behind; 1 gives every file a version. "
            "Default: MIRRORGATE_MIRROR_FILES_PER_VERSION, else 64.",
            show_default=False,
        ),
    ] = None,
    poll_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Seconds between two looks at the zone. Default: MIRRORGATE_MIRROR_POLL_SECONDS, else 0.5 for a "
            "folder and 15 for an address.",
            show_default=False,
        ),
    ] = None,
    storage_options: StorageOptions = None,
    data_dir: Annotated[Path, typer.Option(help="Folder where a Java is kept, if none is installed.")] = (
        DEFAULT_DATA_DIR
    ),
    print_path: Annotated[
        bool, typer.Option("--print-path", help="Print the path of the file for spark-submit, and exit.")
    ] = False,
) -> None:
    """Apply the files of a landing zone to Delta tables, by Fabric's rules. Requires the extra `mirror` and Java 17.

    Runs until Ctrl-C; a restart continues where the Delta tables are. No Postgres is needed. One mirror can write to a
    target at a time. On a Spark cluster, all executors must see the same folders: `spark-submit …
    $(mirrorgate mirror run --print-path)`.

    Example: `mirrorgate mirror run --once /mnt/zone --to /mnt/mirror`
    """
    if print_path:
        found = find_spec("spark_jobs.mirror")
        typer.echo(found and found.origin)
        return
    require_extras("mirror run", "mirror")
    from app.local.embedded import find_java
    from app.settings import PREFIX, Settings
    from app.zone_settings import zone_address

    parsed = parse_storage_options(storage_options)
    given = {
        "LANDING_ZONE": zone,
        "MIRROR_TARGET": to,
        "MIRROR_FILES_PER_VERSION": None if files_per_version is None else str(files_per_version),
        "MIRROR_POLL_SECONDS": None if poll_seconds is None else str(poll_seconds),
        "MIRROR_STORAGE_OPTIONS": json.dumps(parsed) if parsed else None,
    }
    os.environ.update({f"{PREFIX}{name}": value for name, value in given.items() if value is not None})
    if sys.stderr.isatty():  # a person reads it, not a collector of logs
        os.environ.setdefault(f"{PREFIX}LOG_FORMAT", "console")
        os.environ.setdefault(f"{PREFIX}LOG_LEVEL", "error" if once else "info")
    settings = Settings.from_environment()
    zone_address(settings).check()
    settings.require_mirror_target()
    environment = {**os.environ, "JAVA_HOME": str(find_java(data_dir, os.environ))}
    command = [sys.executable, "-m", "spark_jobs.mirror"]
    command += ["--once"] if once else []
    command += ["--replace"] if replace else []
    command += [argument for name in tables or () for argument in ("--table", name)]
    os.execve(command[0], command, environment)
