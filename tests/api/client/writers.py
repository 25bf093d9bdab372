"""Both writers of the client library behind one interface, so that each test runs with both."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from mirrorgate import AsyncChangeWriter, AsyncGatewayClient, BufferLimits, ChangeWriter, GatewayClient, Receipt
from tests.api.calls import ADMIN_KEY

SMALL = BufferLimits(request_bytes=120, request_rows=5, max_age=0.01, buffer_bytes=2_000)


class Writing(Protocol):
    """What a test does with a writer."""

    @property
    def position(self) -> str | None: ...

    @property
    def unsent(self) -> int: ...

    def write(self, row: Any, **options: Any) -> None: ...

    def write_change(self, message: Any, **options: Any) -> None: ...

    def flush(self) -> tuple[Receipt, ...]: ...

    def close(self) -> tuple[Receipt, ...]: ...

    def abort(self) -> None: ...


class AsyncWriting:
    """Runs an AsyncChangeWriter in an event loop that runs during the calls only."""

    def __init__(self, runner: asyncio.Runner, writer: AsyncChangeWriter[Any]) -> None:
        self._runner = runner
        self._writer = writer

    @property
    def position(self) -> str | None:
        return self._writer.position

    @property
    def unsent(self) -> int:
        return self._writer.unsent

    def write(self, row: Any, **options: Any) -> None:
        self._runner.run(self._writer.write(row, **options))

    def write_change(self, message: Any, **options: Any) -> None:
        self._runner.run(self._writer.write_change(message, **options))

    def flush(self) -> tuple[Receipt, ...]:
        return self._runner.run(self._writer.flush())

    def close(self) -> tuple[Receipt, ...]:
        return self._runner.run(self._writer.close())

    def abort(self) -> None:
        self._runner.run(self._writer.abort())


@contextmanager
def writing(kind: str, url: str, *, limits: BufferLimits = SMALL, **options: Any) -> Iterator[Writing]:
    """Yield a writer of a kind, `sync` or `async`, with an end as a `with` statement gives it."""
    if kind == "sync":
        with GatewayClient(url, ADMIN_KEY) as client, ChangeWriter[Any](client, limits=limits, **options) as writer:
            yield writer
        return
    with asyncio.Runner() as runner:
        client_of_loop = AsyncGatewayClient(url, ADMIN_KEY)
        opened = AsyncChangeWriter[Any](client_of_loop, limits=limits, **options)
        runner.run(opened.__aenter__())
        try:
            yield AsyncWriting(runner, opened)
        except BaseException as error:
            runner.run(opened.__aexit__(type(error), error, error.__traceback__))
            raise
        else:
            runner.run(opened.__aexit__(None, None, None))
        finally:
            runner.run(client_of_loop.__aexit__(None, None, None))
