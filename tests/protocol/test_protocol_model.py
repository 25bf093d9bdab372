"""Explores all states of the publication protocol: invariants that hold in each, and the rules that they need."""

import ast
from dataclasses import replace

import pytest

from tests.project.facts import REPOSITORY
from tests.protocol.cases import (
    DROPS,
    LEASES,
    LOAD_BEARING,
    MOVES_ALL,
    NOT_IN_THE_CODE,
    OUTSIDERS,
    POWER,
    PUBLISHING,
    REDUNDANT,
    WORLDS,
)
from tests.protocol.explore import Exploration
from tests.protocol.model import CODE, STEPS
from tests.protocol.progress import first_without_progress
from tests.protocol.rules import Bounds, Case, Mirror, Rule
from tests.protocol.state import Pc

LARGEST = {"three blocks, two drains, late requests"}
"""More states than each run of the tests has time for; `make check-all` explores them."""
ONLY_WITHOUT_A_RULE = {Pc.REVOKE_LOOK_AGAIN}
LONG_REMOVED = replace(PUBLISHING, in_flight=0, mirror=Mirror.MOVES_ALL_REMOVES_RECORDED)


def assert_sound(case: Case) -> Exploration:
    """No reachable state breaks an invariant, and from each of them a drain that is left alone comes to an end."""
    exploration = Exploration(case)
    assert exploration.violation is None, str(exploration.violation)
    stuck = first_without_progress(exploration)
    assert stuck is None, str(stuck)
    return exploration


def defined_names(path: str) -> set[str]:
    """Functions and methods of a module."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return functions | {
        f"{c.name}.{node.name}" for c in classes for node in c.body if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", [pytest.param(world, marks=pytest.mark.thorough) if world in LARGEST else world for world in WORLDS]
)
def test_no_reachable_state_breaks_an_invariant_and_from_each_everything_gets_published(world: str) -> None:
    bounds, least = WORLDS[world]
    assert assert_sound(Case(bounds)).states >= least


@pytest.mark.parametrize("rule", LOAD_BEARING)
def test_leaving_a_load_bearing_rule_out_does_harm(rule: Rule) -> None:
    bounds, harm = LOAD_BEARING[rule]
    exploration = Exploration(Case(bounds).without(rule))
    found = exploration.violation
    assert found is not None, f"without '{rule.value}' nothing is wrong in {exploration.states} states"
    assert found.what == harm, str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds",
    [PUBLISHING, DROPS, OUTSIDERS, POWER, LEASES],
    ids=["publishing", "drop", "outsiders", "power", "leases"],
)
def test_leaving_all_redundant_rules_out_together_does_no_harm(bounds: Bounds) -> None:
    assert_sound(Case(bounds).without(*REDUNDANT))


def test_every_rule_is_known_to_be_load_bearing_or_redundant() -> None:
    assert set(Rule) == LOAD_BEARING.keys() | REDUNDANT.keys()
    assert not LOAD_BEARING.keys() & REDUNDANT.keys()


def test_the_code_which_does_not_look_for_the_last_recorded_file_is_sound_while_nobody_deletes_it() -> None:
    assert_sound(Case(LONG_REMOVED).without(*NOT_IN_THE_CODE))


def test_looking_for_the_last_recorded_file_stops_sound_tables_if_mirroring_removes_it_in_time() -> None:
    found = Exploration(Case(LONG_REMOVED)).violation
    assert found is not None
    assert found.what == "a table is quarantined although nobody touched it", str(found)


def test_the_protocol_relies_on_mirroring_to_keep_a_file_until_it_is_recorded() -> None:
    found = Exploration(Case(replace(MOVES_ALL, mirror=Mirror.REMOVES_ALL)).without(Rule.LAST_FILE)).violation
    assert found is not None
    assert found.what == "a number lands twice", str(found)


def test_every_step_is_taken_in_some_world() -> None:
    small = Bounds(blocks=1, epochs=2, in_flight=0)
    worlds = [replace(small, drops=1, epochs=3), replace(small, power=True), replace(small, outside=1)]
    taken = set().union(*(Exploration(Case(world)).steps for world in worlds))
    assert taken == set(Pc) - ONLY_WITHOUT_A_RULE


def test_every_step_stands_for_functions_that_exist() -> None:
    assert STEPS.keys() == set(Pc)
    assert {pc for pc, code in CODE.items() if not code} == ONLY_WITHOUT_A_RULE
    for module, name in (reference.split(":") for code in CODE.values() for reference in code):
        assert name in defined_names(f"{module.replace('.', '/')}.py"), f"{module}:{name}"
