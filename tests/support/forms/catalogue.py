"""All forms by name."""

from collections.abc import Mapping
from typing import Final

from tests.support.forms import arcion, avro, debezium, replicate, rows
from tests.support.forms.form import Form

FORMS: Final[Mapping[str, Form]] = {
    "arcion": arcion.FULL,
    "arcion partial": arcion.PARTIAL,
    "arcion native": arcion.NATIVE,
    "arcion native partial": arcion.NATIVE_PARTIAL,
    "arcion csv": arcion.CSV,
    "replicate": replicate.ENVELOPED,
    "replicate flattened": replicate.FLATTENED,
    "replicate masks": replicate.MASKED,
    "replicate layout": replicate.CUSTOM,
    "replicate avro": avro.REPLICATE,
    "rows array": rows.ARRAY,
    "rows ndjson": rows.NDJSON,
    "rows csv": rows.CSV,
    "rows arrow": rows.ARROW,
    "debezium": debezium.WITH_SCHEMA,
    "debezium without schema": debezium.WITHOUT_SCHEMA,
    "debezium records": debezium.RECORDS,
    "debezium flattened": debezium.FLATTENED,
    "rows avro": avro.ROWS,
}

FULL_FORMS: Final = [name for name, form in FORMS.items() if not form.is_partial]
"""Those whose changes give all columns."""

KEY_CHANGE_FORMS: Final = {name: form for name, form in FORMS.items() if not form.splits_key_changes}
"""Those with changes of keys. The others cannot tell a statement that exchanges keys: the second delete removes the
row that the first insert wrote."""
