"""A proxy in front of the gateway that drops the first answer to each request; the gateway still carries it out."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.http.stand_in import ForwardingStandIn, serving


@dataclass
class DroppingProxy:
    """`seen` counts each request by method, path and producer's number."""

    seen: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)
    url: str = ""

    def posted(self) -> dict[int, int]:
        """Return how often each numbered request arrived."""
        return {int(number): times for (_, _, number), times in self.seen.items() if number is not None}


@contextmanager
def dropping_proxy(gateway: str) -> Iterator[DroppingProxy]:
    """Yield a proxy in front of the gateway at this address."""
    proxy = DroppingProxy()

    class Handler(ForwardingStandIn):
        target = gateway

        def respond(self) -> None:
            response = self.forward(self.body())
            request = (self.command, self.path, self.headers["Mirrorgate-Producer-Sequence"])
            proxy.seen[request] += 1
            if proxy.seen[request] == 1:
                self.close_connection = True
            else:
                self.pass_back(response)

    with serving(Handler) as proxy.url:
        yield proxy
