"""What a lock of either kind gives: a target that this process may write, and how another owner is named."""

from typing import Protocol

from app.errors import Code, Misconfigured


class HeldTarget(Protocol):
    """A target that this process holds."""

    def check(self) -> None:
        """Raise TemporarilyUnavailable `mirror_away` when the target is not the one that was locked.

        Raise Misconfigured `mirror_running` once another mirror has taken it.
        """
        ...


def taken(target: str, owner: str) -> Misconfigured:
    """Return the error for a target that another mirror holds. `owner` names its process and host."""
    return Misconfigured(Code.MIRROR_RUNNING, f"another mirror writes to {target}: {owner}")
