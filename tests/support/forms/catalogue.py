"""All forms. A request of each lands the same rows for the same changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tests.support.forms import arcion, avro, debezium, replicate, rows
from tests.support.forms.form import Change, Form, Request, Source

SENT: Final = (*arcion.FORMS, *replicate.FORMS, *debezium.FORMS, *rows.FORMS)
"""Those that a gateway reads without preparations."""

_OF_CHANGES: Final = [form for form in (*SENT, replicate.WITH_LAYOUT, *avro.FORMS) if "I" in form.operations]


def partly(form: Form) -> Form:
    """Return the form with updates that leave out what they do not change, as far as it can leave that out."""

    def write(source: Source, changes: Sequence[Change]) -> Request:
        return form.write(source, [_partly(change, source, form) for change in changes])

    return replace(form, name=f"{form.name}, partly", write=write, leaves_out=True)


def _partly(change: Change, source: Source, form: Form) -> Change:
    old, new, keys = change.old, change.new, source.table.keys
    if old is None or new is None:
        return change
    columns = source.table.columns
    given = [c.name for c in columns if c.name in keys or new[c.name] != old[c.name] or not form.omits(c)]
    return replace(change, given=frozenset(given))


FULL_FORMS: Final[Mapping[str, Form]] = {form.name: form for form in _OF_CHANGES}
"""Those whose changes give all columns, by name."""

FORMS: Final[Mapping[str, Form]] = {
    **FULL_FORMS,
    **{form.name: form for form in map(partly, (form for form in _OF_CHANGES if "U" in form.partial))},
}
