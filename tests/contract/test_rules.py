"""Rules that let generators write good clients from the contract; each holds for every operation."""

import re
from collections.abc import Iterator

import pytest

from mirrorgate.errors import Code
from tests.contract.reading import (
    PROBLEM,
    Example,
    Operation,
    Schema,
    examples,
    load_contract,
    mistakes,
    operations,
    references,
    resolved,
    schemas_within,
)

CONTRACT = load_contract()
OPERATIONS = operations(CONTRACT)
EXAMPLES = list(examples(CONTRACT))
SCHEMAS: dict[str, Schema] = CONTRACT["components"]["schemas"]

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)


def test_operation_ids_are_unique_method_names() -> None:
    ids = [str(operation) for operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not re.fullmatch(r"[a-z]+(_[a-z]+)+", name)] == []


def test_the_answers_of_changes_have_examples_and_rows_need_their_table() -> None:
    for model in ("AcceptedModel", "DryRunModel", "ProducerModel", "BatchModel", "ProblemModel"):
        assert SCHEMAS[model]["examples"], "which test_the_examples_of_a_component_fit_it checks"
    for operation in OPERATIONS:
        if str(operation) in ("post_rows", "post_arrow_rows"):
            [table] = [parameter for parameter in operation.parameters if parameter["name"] == "table"]
            assert table["required"] and table["schema"]["examples"] == ["tpch.nation"]
    assert "mirrorgate --version" in CONTRACT["info"]["description"]


def test_every_call_that_a_remedy_names_is_in_the_contract() -> None:
    for code in Code:
        for remedy in (code.remedy, *code.of_format.values()):
            for method, path in re.findall(r"\b(GET|PUT|POST|DELETE|PATCH) (/[\w/{}.?=-]+)", remedy):
                assert method.lower() in CONTRACT["paths"].get(path.rstrip("."), {}), (code, method, path)


def test_no_remedy_begins_with_what_empties_a_table() -> None:
    for code in Code:
        assert not re.match("Recreate|Drop the table|Delete the table", code.remedy), code


def test_every_tag_is_declared_with_a_description_and_used() -> None:
    declared = {tag["name"]: tag.get("description", "") for tag in CONTRACT["tags"]}
    used = [operation.described["tags"] for operation in OPERATIONS]
    assert all(len(tags) == 1 for tags in used)
    assert {tag for tags in used for tag in tags} == declared.keys()
    assert all(text.endswith(".") for text in declared.values())


def test_the_contract_says_who_serves_it_and_how_a_key_is_sent() -> None:
    assert all(server["url"] and server["description"] for server in CONTRACT["servers"])
    assert CONTRACT["info"]["license"]["identifier"]
    for operation in OPERATIONS:
        for needed in operation.described.get("security", []):
            assert needed.keys() <= CONTRACT["components"]["securitySchemes"].keys(), operation
    for scheme in CONTRACT["components"]["securitySchemes"].values():
        assert scheme["description"]


@each_operation
def test_an_operation_has_a_summary_that_fits_a_line(operation: Operation) -> None:
    summary = operation.described["summary"]
    assert 5 < len(summary) <= 100
    assert summary[0].isupper()
    assert not summary.endswith(".")


@each_operation
def test_a_parameter_never_has_a_default_or_null(operation: Operation) -> None:
    """Generated clients send defaults, and take null for a value of its own."""
    for parameter in operation.parameters:
        assert "default" not in parameter["schema"], parameter["name"]
        assert "null" not in repr(parameter["schema"]), parameter["name"]
        if parameter["in"] == "path" and parameter["schema"].get("type") != "integer":
            assert parameter["schema"].get("examples"), parameter["name"]


@each_operation
def test_an_operation_documents_its_success_and_its_rejections_as_problems(operation: Operation) -> None:
    statuses = operation.responses.keys()
    assert any(status.startswith("2") for status in statuses)
    assert {"400", "500"} <= statuses
    if "security" in operation.described:
        assert {"401", "403", "503"} <= statuses
    if operation.bodies:
        assert {"408", "413"} <= statuses
    if any(parameter["in"] == "path" for parameter in operation.parameters):
        assert "404" in statuses
    for status, response in operation.responses.items():
        assert 0 < len(response["description"]) < 120, status
        if status.startswith("4"):
            assert response["content"] == {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemModel"}}}, status


@each_operation
def test_an_answer_names_its_headers(operation: Operation) -> None:
    for status, response in operation.responses.items():
        headers = {name: resolved(CONTRACT, header) for name, header in response["headers"].items()}
        assert "X-Request-Id" in headers, status
        assert all(header["description"] and header["schema"] for header in headers.values()), status
        assert ("WWW-Authenticate" in headers) == (status == "401"), status
        if status in {"429", "503"} and PROBLEM in response["content"]:
            assert "Retry-After" in headers, status


@each_operation
def test_json_is_never_described_as_a_string(operation: Operation) -> None:
    bodies = [operation.bodies, *(response.get("content", {}) for response in operation.responses.values())]
    described = [content["application/json"]["schema"] for content in bodies if "application/json" in content]
    assert [schema for schema in described if schema.get("type") == "string"] == []


@each_operation
def test_bodies_are_named_components_with_examples(operation: Operation) -> None:
    shown = {(str(example.operation), example.content_type) for example in EXAMPLES}
    if operation.described.get("requestBody", {}).get("required"):
        texts = [name for name, body in operation.bodies.items() if body["schema"].get("format") != "binary"]
        assert {(str(operation), content_type) for content_type in texts} <= shown
    for place, schema in inline_schemas(operation):
        assert "properties" not in schema, f"{place} belongs into a component of its own"


def inline_schemas(operation: Operation) -> Iterator[tuple[str, Schema]]:
    contents = {"request": operation.bodies} | {
        status: response.get("content", {}) for status, response in operation.responses.items()
    }
    for where, content in contents.items():
        for content_type, body in content.items():
            yield from schemas_within(body["schema"], f"{operation} {where} {content_type}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_component_is_named_described_and_holds_no_anonymous_object(name: str) -> None:
    schema = SCHEMAS[name]
    assert re.fullmatch(r"[A-Z][A-Za-z]+", name)
    assert schema.get("description"), "a docstring of the model becomes its description"
    for place, inner in schemas_within(schema, name):
        assert inner is schema or "properties" not in inner, f"{place} belongs into a component of its own"
        assert "default" not in inner, f"{place}: a client takes it for a value that is always there"
        assert inner.get("required", []) == [] or inner.keys() >= {"properties"}, place
        assert set(inner.get("required", [])) <= set(inner.get("properties", {})), place


@each_operation
def test_a_body_that_may_be_left_out_is_never_null(operation: Operation) -> None:
    """The clients of openapi-python-client would have no way to leave it out."""
    if not operation.described.get("requestBody", {}).get("required"):
        for body in operation.bodies.values():
            assert {"type": "null"} not in body["schema"].get("anyOf", [])


def test_the_keys_of_a_mapping_have_a_pattern_that_excludes_others() -> None:
    assert "patternProperties" not in repr(CONTRACT)
    check = SCHEMAS["SourceCheckModel"]
    assert (
        mistakes(CONTRACT, check, {"buckets": {"0f": {"rows": 1, "checksum": 2}}, "rows": {"0f": {"any key": 1}}}) == []
    )
    assert mistakes(CONTRACT, check, {"buckets": {"xy": {"rows": 1, "checksum": 2}}}) != []


@pytest.mark.parametrize(
    "name", [name for name, schema in SCHEMAS.items() if name.endswith("Message") and "anyOf" in schema]
)
def test_no_form_of_a_message_hides_another_from_clients_that_take_null_for_a_missing_key(name: str) -> None:
    """As those of openapi-generator do in Python: they sent a change as the NULL of a form without its keys."""

    def rank(choice: Schema) -> int:
        schema = resolved(CONTRACT, choice)
        values = [schema["properties"][key] for key in schema.get("required", [])]
        return (
            2
            if any("null" not in repr(value) and "type" in resolved(CONTRACT, value) for value in values)
            else bool(schema.get("additionalProperties"))
        )

    ranks = [rank(choice) for choice in SCHEMAS[name]["anyOf"]]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_choices_of_a_value_have_one_list_of_values(name: str) -> None:
    """Of two lists with the same values, orval makes one constant that names each twice."""
    for place, inner in schemas_within(SCHEMAS[name], name):
        assert sum("enum" in choice for choice in inner.get("anyOf", ())) <= 1, place


def test_every_component_is_used() -> None:
    everything = references(CONTRACT)
    assert {name for name in SCHEMAS if f"schemas/{name}" not in everything} == set()
    assert {name for name in CONTRACT["components"]["headers"] if f"headers/{name}" not in everything} == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_fits_its_schema(example: Example) -> None:
    assert mistakes(CONTRACT, example.schema, example.value) == []


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if "examples" in schema])
def test_the_examples_of_a_component_fit_it(name: str) -> None:
    for value in SCHEMAS[name]["examples"]:
        assert mistakes(CONTRACT, SCHEMAS[name], value) == []
