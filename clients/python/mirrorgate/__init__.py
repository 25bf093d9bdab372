"""Client library of the gateway, over HTTP; installable without the server's packages.

`dataframes` sends a DataFrame in one call. `writer` is for applications: ChangeWriter and AsyncChangeWriter buffer rows
and post them in the background. `producer` posts single requests, each durable once under its name; `retrying` says
which are repeated, and when. `loads` begins, completes and aborts load sessions. `stages` waits until rows can be
queried. `http` is the client under all of them and of the command line. `send` posts files of changes in requests that
`chunking` cuts by their `source`, and finds them in an `object_store`: a `folder` or a `bucket`. `arrow_rows` and
`excel` cut Parquet and sheets, whose columns `loads` gives to their table. `file_content` continues a file in its
middle, and `file_paths` says which tables paths name. `errors` are those that the gateway raises too, and `parameters`
those of requests. `cli` is the command `mirrorgate`.

Applications import what `__all__` names from here. It is loaded on first use, because the commands need little of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mirrorgate.dataframes import mirror
    from mirrorgate.errors import MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable
    from mirrorgate.http import AnswerLost, GatewayClient, RejectedByGateway
    from mirrorgate.loads import Load
    from mirrorgate.producer import ChangeRequest, Patience, Producer, ProducerConflict, Stopped
    from mirrorgate.writer.async_change_writer import AsyncChangeWriter, AsyncGatewayClient
    from mirrorgate.writer.change_writer import ChangeWriter
    from mirrorgate.writer.core import Accepted, BufferLimits, Receipt, RejectedRow, RowsRejected

_MODULES: Final = {
    "Accepted": "writer.core",
    "AnswerLost": "http",
    "AsyncChangeWriter": "writer.async_change_writer",
    "AsyncGatewayClient": "writer.async_change_writer",
    "BufferLimits": "writer.core",
    "ChangeRequest": "producer",
    "ChangeWriter": "writer.change_writer",
    "GatewayClient": "http",
    "Load": "loads",
    "MirrorgateError": "errors",
    "Misconfigured": "errors",
    "Patience": "producer",
    "Producer": "producer",
    "ProducerConflict": "producer",
    "Receipt": "writer.core",
    "RejectedByGateway": "http",
    "RejectedInput": "errors",
    "RejectedRow": "writer.core",
    "RowsRejected": "writer.core",
    "Stopped": "producer",
    "TemporarilyUnavailable": "errors",
    "mirror": "dataframes",
}

__all__ = [
    "Accepted",
    "AnswerLost",
    "AsyncChangeWriter",
    "AsyncGatewayClient",
    "BufferLimits",
    "ChangeRequest",
    "ChangeWriter",
    "GatewayClient",
    "Load",
    "MirrorgateError",
    "Misconfigured",
    "Patience",
    "Producer",
    "ProducerConflict",
    "Receipt",
    "RejectedByGateway",
    "RejectedInput",
    "RejectedRow",
    "RowsRejected",
    "Stopped",
    "TemporarilyUnavailable",
    "mirror",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
