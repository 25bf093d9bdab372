"""Options that the commands on mirrored tables share, and the target that they name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.extras import require_extras
from mirrorgate.errors import Code, Misconfigured

if TYPE_CHECKING:
    from datetime import datetime

    from app.mirror.target import DamagedTable, MirrorTarget

To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TARGET",
        help="Folder or address of the Delta tables. Default: MIRRORGATE_MIRROR_TARGET, else `mirror` in --data-dir.",
        show_default=False,
    ),
]
MirroredTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table: `name` or `schema.name`.")]
MirroredTables = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TABLE]...", help="The tables: `name` or `schema.name`. Default: all.", show_default=False),
]
AtVersion = Annotated[
    int | None, typer.Option("--version", min=0, help="The table as of this version.", show_default=False)
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="As of this time, such as 2026-11-22T15:00:00Z. Without an offset it is UTC.",
        show_default=False,
    ),
]


StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="Option of deltalake for the target, such as aws_region=eu-west-1. Repeatable. Variables such as "
        "AWS_SECRET_ACCESS_KEY keep secrets out of the process list.",
    ),
]


def parse_storage_options(given: Sequence[str] | None) -> dict[str, str] | None:
    """Return KEY=VALUE pairs as a mapping, None without one.

    Raise Misconfigured for a pair without `=`, without showing it.
    """
    pairs = [pair.partition("=") for pair in given or ()]
    if not all(separator and key for key, separator, _ in pairs):
        raise Misconfigured(
            Code.BAD_SETTING, "--storage-option needs KEY=VALUE", remedy="For example, aws_region=eu-west-1."
        )
    return {key: value for key, _, value in pairs} or None


def open_target(
    command: str, to: str | None, data_dir: Path, storage_options: Sequence[str] | None = None
) -> "MirrorTarget":
    """Return the target that the options and the environment name.

    Raises Misconfigured `extra_missing`, `bad_setting`, or `mirror_missing` if nothing names a target.
    """
    require_extras(command, "mirror")
    from app.mirror.target import MirrorTarget
    from app.settings import Settings

    options = parse_storage_options(storage_options)
    settings = Settings.from_environment(mirror_target=to, mirror_storage_options=options)
    local = data_dir / "mirror"
    if settings.mirror_target is None:
        if not local.is_dir():
            raise Misconfigured(
                Code.MIRROR_MISSING,
                f"neither --to nor MIRRORGATE_MIRROR_TARGET names a target, and there is no folder {local}",
            )
        settings = Settings.from_environment(mirror_target=str(local))
    return MirrorTarget(settings.require_mirror_target(), settings.mirror_options)


def point_in_time(version: int | None, as_of: str | None) -> "int | datetime | None":
    """Return what --version and --as-of name together: at most one of them is given."""
    if version is not None and as_of is not None:
        raise typer.BadParameter("give --version or --as-of, not both")
    return version if as_of is None else parse_version_or_time(as_of)


def parse_version_or_time(text: str) -> "int | datetime":
    """Return a version number, or a time of ISO 8601."""
    from app.mirror.inspection.history import parse_point

    try:
        return parse_point(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a version number nor a time such as 2026-11-22T15:00:00Z"
        ) from None


def chosen_tables(target: "MirrorTarget", tables: list[str] | None) -> list[str]:
    """Return the full names of the tables that a command names, or of all that the mirror has."""
    from app.mirror.inspection.history import find_table, table_names

    names = table_names(target)
    return list(dict.fromkeys(find_table(names, one) for one in tables)) if tables else names


class DamagedTables:
    """The damaged tables among those that a command treats one after the other."""

    def __init__(self) -> None:
        self._found: list[DamagedTable] = []

    @contextmanager
    def skipped(self) -> Iterator[None]:
        """Leave the block for a table whose Delta log is damaged."""
        from app.mirror.target import DamagedTable

        try:
            yield
        except DamagedTable as error:
            self._found.append(error)

    def raise_found(self) -> None:
        """Raise DamagedTable, which names all of them, if there is one."""
        if self._found:
            self._found[0].errors = [problem for error in self._found for problem in error.errors]
            raise self._found[0]
