"""`mirrorgate wait`: wait until accepted rows can be used."""

import sys
from typing import Annotated

import typer

from mirrorgate.cli.console import ERRORS, print_json, say, working
from mirrorgate.cli.options import AsJson, Connection, TableName, with_connection
from mirrorgate.parameters import WAIT_SECONDS, Stage


@with_connection
def wait(
    connection: Connection,
    table: TableName,
    *,
    until: Annotated[
        Stage,
        typer.Option(
            help="published: in the landing zone; processed: read by Fabric; queryable: shown by queries of the SQL "
            "analytics endpoint."
        ),
    ] = Stage.PUBLISHED,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds after which the command gives up. 0: check once.")
    ] = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Wait until all that a table has accepted by now is published, processed by Fabric, or queryable.

    Run it after sending, before a query that needs the rows. Rows that are accepted during the wait do not prolong it.
    On a terminal a line shows how far the rows are. If something stops them (no drain runs, the table is paused or
    quarantined, mirroring is stopped in Fabric, the SQL endpoint cannot be refreshed), the command says so once, with
    the remedy, and continues: the rows advance after an operator acts.

    published takes seconds, processed some minutes. queryable needs `MIRRORGATE_FABRIC_REFRESH_SQL=true` at the drain,
    which then refreshes the SQL analytics endpoint after each synchronization.

    Exit status: 0 reached; 1 it cannot be reached (an unknown table, a gateway that does not publish to Fabric, a table
    that was recreated); 2 wrong usage; 3 not reached within --timeout, or no gateway answers; 130 stopped by Ctrl-C.

    For example:

        mirrorgate wait shop.orders --until queryable --timeout 900
    """
    from mirrorgate.stages import Obstacle, wait_until

    told: set[Obstacle] = set()
    with connection.client() as client, working(f"{table}: asking") as advance:

        def show(progress: str, obstacle: Obstacle | None) -> None:
            advance(f"{table}: {progress}")
            if obstacle is not None and obstacle not in told:
                told.add(obstacle)
                say(f"waiting: {obstacle}", to=ERRORS)
                sys.stderr.flush()

        status = wait_until(client, table, until, timeout=timeout, on_progress=show)
    if as_json:
        print_json({"table": status["table"], "until": until.value, "status": status})
    else:
        say(f"{status['table']}: {until.value} through batch {status['last_sequence']:,}")
