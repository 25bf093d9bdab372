"""The page of an error: what is wrong, what to do, and the id under which the log has it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemView:
    """An error as its page shows it."""

    status: int
    title: str
    detail: str
    remedy: str
    code: str
    request_id: str | None
    problems: tuple[str, ...] = ()
    """What is wrong with each part of the input, if there are several."""
    retry_after: int | None = None
    """Seconds after which the page is worth loading again."""


@dataclass(frozen=True, slots=True)
class SignInView:
    """The sign-in page: where to go afterwards, and what was wrong with the last try."""

    next: str
    error: str | None = None
    remedy: str | None = None
    ended: bool = False
    """True if a session has ended, so that the page says so."""
    oidc: bool = False
    """Whether an identity provider can be used."""


@dataclass(frozen=True, slots=True)
class ContinueView:
    """A page that loads another one by itself."""

    target: str
    label: str = "Continue to the console"
