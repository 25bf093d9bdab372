"""When alerts are told: once they last, again when their cause changes, and once more when they are over."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.domain.health.alerts import MAX_TOLD, AlertPlan, KnownAlert, message_of, plan_alerts
from app.domain.health.troubles import Kind, Severity, Trouble

START = datetime(2026, 1, 1, tzinfo=UTC)
QUARANTINED = Trouble(
    Kind.TABLE_QUARANTINED, "s.a", Severity.CRITICAL, "foreign_file", "A file is foreign.", "Move it."
)
LETTERS = Trouble(Kind.DEAD_LETTERS, "s.a", Severity.WARNING, "dead_letters_waiting", "They wait.", "Replay them.")


class Memory:
    """What a gateway stores between two looks."""

    def __init__(self, after_seconds: float = 60.0) -> None:
        self.known: dict[str, KnownAlert] = {}
        self.after_seconds = after_seconds

    def look(self, seconds: float, found: Iterable[Trouble], *, is_taken: bool = True) -> AlertPlan:
        now = START + timedelta(seconds=seconds)
        plan = plan_alerts(self.known, found, now, after_seconds=self.after_seconds)
        self.known |= {known.alert.key: known for known in (*plan.begun, *plan.changed)}
        for key in plan.forgotten:
            del self.known[key]
        if is_taken:
            self.known |= {known.alert.key: replace(known, told_code=known.alert.code) for known in plan.firing}
            for known in plan.resolved:
                del self.known[known.alert.key]
        return plan


def told(plan: AlertPlan) -> tuple[list[str], list[str]]:
    return [known.alert.code for known in plan.firing], [known.alert.code for known in plan.resolved]


def test_an_alert_is_told_once_it_lasts_and_once_when_it_is_over() -> None:
    memory = Memory()
    looks = [(0, [QUARANTINED]), (59, [QUARANTINED]), (60, [QUARANTINED]), (70, [QUARANTINED]), (80, []), (90, [])]
    assert [told(memory.look(seconds, found)) for seconds, found in looks] == [
        ([], []),
        ([], []),
        (["foreign_file"], []),
        ([], []),
        ([], ["foreign_file"]),
        ([], []),
    ]


def test_what_ends_before_it_was_told_is_never_told() -> None:
    memory = Memory()
    memory.look(0, [QUARANTINED])
    assert told(memory.look(30, [])) == ([], [])
    assert not memory.known


def test_another_cause_is_told_and_another_text_is_not() -> None:
    memory = Memory(after_seconds=0)
    memory.look(0, [QUARANTINED])
    assert told(memory.look(10, [replace(QUARANTINED, detail="Two files are foreign.")])) == ([], [])
    assert told(memory.look(20, [replace(QUARANTINED, code="landing_folder_lost")])) == (["landing_folder_lost"], [])


def test_another_cause_is_told_only_once_it_lasts() -> None:
    memory, other = Memory(), replace(QUARANTINED, code="landing_folder_lost")
    looks = [(0, QUARANTINED), (60, QUARANTINED), (70, other), (80, QUARANTINED), (90, other), (140, other)]
    found = [told(memory.look(seconds, [alert])) for seconds, alert in looks]
    assert found == [([], []), (["foreign_file"], []), ([], []), ([], []), ([], []), ([], [])]
    assert told(memory.look(150, [other])) == (["landing_folder_lost"], [])


def test_a_cause_that_changes_before_it_was_told_does_not_delay_the_alert() -> None:
    memory = Memory()
    memory.look(0, [QUARANTINED])
    assert told(memory.look(60, [replace(QUARANTINED, code="landing_folder_lost")])) == (["landing_folder_lost"], [])


def test_a_message_that_is_not_taken_is_sent_again() -> None:
    memory = Memory(after_seconds=0)
    for seconds in range(3):
        assert told(memory.look(seconds, [QUARANTINED], is_taken=False)) == (["foreign_file"], [])
    memory.look(3, [QUARANTINED])
    assert told(memory.look(4, [], is_taken=False)) == ([], ["foreign_file"])
    assert told(memory.look(5, [])) == ([], ["foreign_file"])


def test_a_message_lists_a_bounded_number_and_the_next_one_the_others() -> None:
    memory = Memory(after_seconds=0)
    many = [replace(LETTERS, subject=f"s.t{number:03d}") for number in range(MAX_TOLD + 20)]
    first, second = memory.look(0, [*many, QUARANTINED]), memory.look(1, [*many, QUARANTINED])
    assert first.firing[0].alert == QUARANTINED
    assert (len(first.firing), len(second.firing)) == (MAX_TOLD, 21)


def test_a_message_tells_what_why_and_what_to_do_in_words_and_in_members() -> None:
    plan = Memory(after_seconds=0).look(0, [QUARANTINED])
    message = message_of(plan, gateway="g", now=START)
    assert message["text"] == "CRITICAL: s.a (table_quarantined, foreign_file). A file is foreign. Move it."
    assert message["alerts"] == [
        {
            "id": "table_quarantined:s.a@2026-01-01T00:00:00+00:00",
            "status": "firing",
            "kind": "table_quarantined",
            "subject": "s.a",
            "severity": "critical",
            "code": "foreign_file",
            "detail": "A file is foreign.",
            "remedy": "Move it.",
            "since": "2026-01-01T00:00:00+00:00",
        }
    ]


@given(st.lists(st.tuples(st.sets(st.sampled_from([QUARANTINED, LETTERS])), st.booleans()), max_size=30))
def test_every_alert_that_was_told_is_told_to_be_over_exactly_once(history: list[tuple[set[Trouble], bool]]) -> None:
    memory, balance = Memory(after_seconds=1), dict.fromkeys((QUARANTINED.key, LETTERS.key), 0)
    for seconds, (found, is_taken) in enumerate([*history, (set(), True)]):
        plan = memory.look(seconds, found, is_taken=is_taken)
        if is_taken:
            for known in plan.firing:
                balance[known.alert.key] += 1
            for known in plan.resolved:
                balance[known.alert.key] -= 1
        assert set(balance.values()) <= {0, 1}
    assert set(balance.values()) == {0}
    assert not memory.known
