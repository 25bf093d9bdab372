"""What a request with changes says beside its body."""

import csv
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from app.api.auth.authenticator import bearer
from app.api.routes.identity_headers import IdentityHeaders
from app.api.server.query_parameters import Parameters, described_parameters
from app.domain.model.table_options import OptionValue
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.errors import Code, RejectedInput
from app.ingest import CsvLayout, CsvMode


class OnReject(OptionValue):
    """What becomes of a request with a message that is rejected."""

    REJECT = "reject"
    DEAD_LETTER = "dead_letter"


class ChangeParameters(Parameters):
    """Parameters of every format."""

    table: Annotated[
        str | None,
        Field(description="The table that every message must be for; needed where messages do not name it."),
    ] = None
    dry_run: Annotated[
        bool, Field(description="Answer what would land, row by row, and stage nothing; nothing is registered either.")
    ] = False

    on_reject: Annotated[
        OnReject,
        Field(
            description="`dead_letter`: keep rejected messages of tables with `dead_letters=accept`, accept the others."
        ),
    ] = OnReject.REJECT

    @property
    def keeps_rejected(self) -> bool:
        """Raises RejectedInput `bad_request` for a dry run, which names all that is wrong."""
        if self.dry_run and self.on_reject is OnReject.DEAD_LETTER:
            raise RejectedInput(Code.BAD_REQUEST, "dry_run=true and on_reject=dead_letter do not go together")
        return self.on_reject is OnReject.DEAD_LETTER


class OverrideParameters(ChangeParameters):
    """Parameters of Arcion's JSON."""

    override: Annotated[
        bool, Field(description="Take every message as one for `table`, whatever table it is addressed to.")
    ] = False


class ReplicateParameters(ChangeParameters):
    """Parameters of Replicate's messages."""

    partition: Annotated[
        str | None,
        Field(
            description="The partition of the task's topic that all messages come from. Tables with "
            "`source_order=enforce` keep a position for each.",
            min_length=1,
            max_length=MAX_PARTITION_CHARACTERS,
            pattern="^[!-~]+$",
        ),
    ] = None


class CsvParameters(Parameters):
    """What a CSV body cannot say itself; JSON bodies need none of it."""

    mode: Annotated[CsvMode | None, Field(description="CSV: how Replicant wrote the file; required.")] = None
    columns: Annotated[
        str | None,
        Field(description="CSV: the column names in file order, separated by commas; one with a comma in quotes."),
    ] = None
    header: Annotated[bool, Field(description="CSV: the first record is a header.")] = False
    delimiter: Annotated[str, Field(description="CSV: what separates fields.")] = ","
    quote: Annotated[str, Field(description="CSV: what encloses fields.")] = '"'
    escape: Annotated[
        str | None, Field(description="CSV: what stands before a quote within a field; the quote itself by default.")
    ] = None

    @property
    def layout(self) -> CsvLayout:
        """Raises RejectedInput `bad_request` without a mode."""
        if self.mode is None:
            raise RejectedInput(Code.BAD_REQUEST, "a CSV body needs mode=snapshot or mode=realtime")
        names = next(csv.reader([self.columns or ""], skipinitialspace=True), [])
        columns = tuple(name.strip() for name in names)
        return CsvLayout(self.mode, columns, self.header, self.delimiter, self.quote, self.escape or self.quote)


class LoadParameters(Parameters):
    """Parameters of initial loads."""

    table: Annotated[str | None, Field(description="The table that the rows are for; required.")] = None


def described_change(body: Mapping[str, Any], *parameters: type[Parameters]) -> dict[str, Any]:
    """What the framework cannot tell the contract of a change route, since it reads none of it."""
    described = [entry for model in parameters for entry in described_parameters(model, "query")]
    described += described_parameters(IdentityHeaders, "header")
    return {**body, "parameters": described, "security": [{bearer.scheme_name: []}]}
