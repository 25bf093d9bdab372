"""`mirrorgate bridge kafka`: post the records of Kafka topics to a gateway, each exactly once."""

import os
from pathlib import Path
from typing import Annotated

import typer

from app.cli.console import say
from app.extras import require_extras


def kafka(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML file of the bridge.", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check", help="Check the file and exit. Nothing is consumed or sent.")
    ] = False,
) -> None:
    """Post the records of Kafka topics to the gateway, each exactly once and in order. Requires the extra `kafka`.

    The gateway keeps the position of each partition in the transaction of its data. So a killed bridge, a rebalance or
    a lost answer neither loses nor repeats a record. Run several bridges with one group to share the partitions.

    Example: `mirrorgate bridge kafka --config bridge.yaml --check`, then without `--check`.
    """
    require_extras("bridge kafka", "kafka")
    from app.bridge.kafka.settings import read_settings

    settings = read_settings(config, os.environ)
    if check:
        say(f"{config}: {len(settings.topics)} topic rules, no error found")
