"""Options that several commands share, declared once, and the connection to a gateway that three of them make.

A command that calls a gateway takes a parameter `connection` and is registered through `with_connection`, which gives
it the options --url, --key and --data-dir.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from mirrorgate.http import GatewayClient

TO_USE: Final = "Tables and changes"
"""Help panel of the commands that call a gateway."""

DEFAULT_DATA_DIR: Final = Path(".mirrorgate")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
TableName = Annotated[str, typer.Argument(help="The table: `name` or `schema.name`.")]
GenerationOption = Annotated[
    int,
    typer.Option(
        "--generation",
        min=1,
        help="The table's current generation, as `mirrorgate status` shows it. Guards against acting on a table that "
        "was recreated in the meantime.",
    ),
]
PrintPath = Annotated[bool, typer.Option("--print-path", help="Print the path of the file for spark-submit, and exit.")]
TableOrAll = Annotated[str | None, typer.Argument(help="The table: `name` or `schema.name`. Leave it out with --all.")]
GenerationOrAll = Annotated[
    int | None,
    typer.Option("--generation", min=1, help="The table's current generation, as `mirrorgate status` shows it."),
]
LocalDataDir = Annotated[
    Path, typer.Option("--data-dir", help="Data directory of a local `mirrorgate up`, running or not.")
]
LandingZone = Annotated[
    str | None,
    typer.Option(
        "--landing-zone",
        help="Folder or OneLake address of the landing zone. Default: MIRRORGATE_LANDING_ZONE.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Connection:
    """The gateway that a command calls, and the key. Every field is an option of the command."""

    url: Annotated[
        str | None,
        typer.Option(envvar="MIRRORGATE_URL", help="URL of the gateway. Default: the one running on --data-dir."),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            envvar="MIRRORGATE_API_KEY", help="API key. Default: the admin key in --data-dir.", show_default=False
        ),
    ] = None
    data_dir: Annotated[Path, typer.Option(help="Data directory of a local `mirrorgate up`.")] = DEFAULT_DATA_DIR

    def client(self) -> "GatewayClient":
        """Open an HTTP client. Raises RejectedInput `unauthenticated` when there is no key."""
        from mirrorgate.http import GatewayClient

        return GatewayClient.find(self.url, self.key, self.data_dir)


def with_connection(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with its parameter `connection` replaced by the options of `Connection`."""
    own = inspect.signature(command, eval_str=True).parameters
    options = inspect.signature(Connection, eval_str=True).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        command(connection=Connection(**{name: given.pop(name) for name in options}), **given)

    parameters = [parameter for name, parameter in own.items() if name != "connection"] + [*options.values()]
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # Typer reads both of these
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return run


def named_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the values of an option that is written NAME=VALUE. Raises BadParameter."""
    if wrong := [text for text in texts if "=" not in text]:
        raise typer.BadParameter(f"{option} must be NAME=VALUE; {wrong[0]} has no value")
    return dict(text.split("=", 1) for text in texts)
