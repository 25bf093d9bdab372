"""`mirrorgate mask-secret change`: record another secret of hashed columns, and list the tables to recreate."""

import json

import typer

from app.cli.console import say
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir
from app.extras import require_extras


def change(as_json: AsJson = False, data_dir: LocalDataDir = DEFAULT_DATA_DIR) -> None:
    """Use the MIRRORGATE_MASK_SECRET of this command for hashed columns from now on, and list the tables to recreate.

    A table that exists keeps its former secret until you recreate it and load it again: its rows are hashed under that
    one. API processes with the former secret serve such tables until then, processes with the new one answer
    `mask_secret_differs`. Repeating the command changes nothing and lists what is left.

    Example: `MIRRORGATE_MASK_SECRET=… mirrorgate mask-secret change`
    """
    require_extras("mask-secret change", "server")
    from app.cli.direct import direct_settings, open_database
    from app.domain.access.mask_secret import MaskSecret
    from app.errors import Code, Misconfigured
    from app.staging.access.mask_secrets import change_mask_secret
    from app.staging.connection.database import translated_errors

    secret = MaskSecret.given(direct_settings(None, data_dir).mask_secret_bytes)
    if secret is None:
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_MASK_SECRET is not set",
            remedy="Set it to the new secret, for this command and then for all API processes.",
        )
    with open_database(data_dir) as engine, translated_errors(), engine.begin() as connection:
        outdated = [*change_mask_secret(connection, secret).outdated()]
    if as_json:
        typer.echo(json.dumps({"recreate": outdated}))
        return
    say("hashed columns that are declared from now on are hashed under this secret")
    if outdated:
        say(f"{len(outdated)} tables are hashed under a former one; recreate and reload them: {', '.join(outdated)}")
