"""Shapes of our own JSON that every route shares. Change messages never pass here."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", use_enum_values=True)


class HealthModel(Model):
    status: str


class ReadinessModel(Model):
    """`parts` says of each part `ok` or what is wrong with it."""

    ready: bool
    parts: dict[str, str]


class ProblemItemModel(Model):
    """One thing wrong with one message of the request."""

    code: str
    detail: str
    index: int | None = None
    pointer: str | None = None
    column: str | None = None


class ProblemModel(Model):
    """RFC 9457 problem details; `code` is stable, `errors` holds the first 100 of `errors_total`."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str
    errors: list[ProblemItemModel] | None = None
    errors_total: int | None = None
