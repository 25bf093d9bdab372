"""Commands that keep tables as a file declares them: `tables apply` and `tables export`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from app.cli.common import AsJson, DataDir, Key, Url, tables
from app.client.http import GatewayClient

_HOME: Final = Path(".mirrorgate")


@tables.command("apply")
def apply(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML as `tables export` prints it; `-` reads standard input.")
    ],
    plan_only: Annotated[
        bool, typer.Option("--plan", "--dry-run", help="Only show what would be done; change nothing.")
    ] = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --plan: exit 2 when there is something to do.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where nobody can be asked.")] = False,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
    as_json: AsJson = False,
) -> None:
    """Register and change tables until they are as FILE declares them. The same again does nothing.

    ```yaml
    tables:
      - name: sales.orders
        key_columns: [id]
        columns:
          - {name: id, type: int64, nullable: false}
          - {name: amount, type: "decimal(12,2)"}
        options:                        # those that are left out have their defaults
          source_timezone: Europe/Berlin
    ```

    The plan is shown first: `+` is added, `~` is changed, `!` cannot be done without recreating the table; the
    command for that stands beside it. While the plan has a `!`, nothing is done. Tables that the file does not name
    are left alone: nothing is ever dropped.

    Each table is registered by itself. If one fails, the tables before it are done; run the same command again.

    Exit status: 0 the tables are as declared, or --plan has shown the plan; 1 rejected or failed; 2 wrong usage, or
    changes with --plan --detailed-exitcode; 130 interrupted.
    """
    if detailed_exitcode and not plan_only:
        raise typer.BadParameter("--detailed-exitcode is for --plan")
    from app.cli.tables import apply as cli_apply

    with GatewayClient.find(url, key, data_dir) as client:
        cli_apply.apply_file(
            client, file, plan_only=plan_only, detailed_exitcode=detailed_exitcode, yes=yes, as_json=as_json
        )


@tables.command("export")
def export(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="Unset: all tables.")] = None,
    all_options: Annotated[
        bool, typer.Option("--all-options", help="Also options that have their default values.")
    ] = False,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Print tables as YAML that `tables apply` takes, and finds unchanged."""
    from app.cli.tables import apply as cli_apply

    with GatewayClient.find(url, key, data_dir) as client:
        typer.echo(cli_apply.exported(client, names, all_options=all_options), nl=False)
