"""The life of one table: its registration, its requests, what operators do, and the comparison with what landed."""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from uuid import UUID

import httpx

from tests.model.changes import Writer, corrected, spoil
from tests.model.fold import Batch, Difference, Fold, Landed
from tests.model.gateway import Gateway
from tests.model.tables import added_column, described, random_spec
from tests.model.values import random_value
from tests.support.forms.catalogue import SENT
from tests.support.forms.form import Change, Form, Key, Request, Source
from tests.support.forms.values import BAD, Column, as_text

MAX_REQUEST: Final = 300
ADDED: Final = (("string", "string"), ("int64", "int64"), ("decimal", "decimal(12,3)"), ("timestamp", "timestamp"))
ADDING_FORMS: Final = ("arcion json", "arcion native", "replicate bare", "rows json")


@dataclass
class Letter:
    """A message that was set aside, and what it becomes when it is corrected."""

    change: Change
    column: Column
    value: Any


@dataclass
class Outcome:
    """What a table's history has done."""

    events: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    rows: int = 0
    files: int = 0


class History:
    """A table with its seed. `run` raises Difference for the first thing that is not as documented."""

    def __init__(self, gateway: Gateway, seed: str, name: str, changes: int, advance: Callable[[int], None]) -> None:
        self._gateway, self._rng, self._advance = gateway, Random(seed), advance
        self.spec = random_spec(self._rng, name)
        self.outcome = Outcome()
        self._budget = changes
        self._fold = Fold(self.spec)
        self._source = Source(self.spec, Random(self._rng.random()))
        self._writer = Writer(self.spec, self._fold, self._rng)
        self._batches: list[Batch] = []
        self._letters: list[Letter] = []
        self._generation, self._number, self._added = 1, 0, 0
        self._producer = f"model/{name}" if self._rng.random() < 0.3 else None
        self._produced = 0
        self._forms = [form for form in SENT if self._is_fit(form)]
        self.step = "the registration"
        self._touched: set[Key] | None = None
        """Keys that the stream has changed since a load began."""

    @property
    def place(self) -> str:
        """Where in the history it is, for messages."""
        return f"{self.spec.name}, generation {self._generation}, step {self._number}"

    def run(self) -> None:
        self._require(self._gateway.call("PUT", self._path, json=self.spec.registration), 201)
        if self._rng.random() < 0.7:
            self._load_initially()
        steps = self._steps()
        turning = [self._budget * 0.4, self._budget * 0.75]
        while self.outcome.changes < self._budget:
            (step,) = self._rng.choices([step for step, _ in steps], [weight for _, weight in steps])
            step()
            if turning and self.outcome.changes > turning[0]:
                turning.pop(0)
                self._begin_generation()
        self._end_generation()
        self._compare_mirror()

    def _steps(self) -> list[tuple[Callable[[], None], float]]:
        options = self.spec.options
        steps: list[tuple[Callable[[], None], float]] = [
            (self._post, 20), (self._post_bad, 1.2), (self._change_options, 0.3), (self._add_column, 0.3)
        ]  # fmt: skip
        if options.get("dead_letters") == "accept":
            steps += [(self._post_with_letter, 2), (self._replay_letters, 1)]
        if self.spec.keeps_images and not self.spec.is_history:
            steps.append((self._run_load, 0.8))
        return steps

    def _is_fit(self, form: Form) -> bool:
        if self.spec.options.get("source_order") == "enforce":
            return form.name.startswith("replicate")
        return bool(self.spec.keys) or form.name not in ("replicate keyed", "debezium records")

    # Requests

    def _load_initially(self) -> None:
        forms = [form for form in self._forms if "S" in form.operations]
        for _ in range(self._rng.randrange(1, 4)):
            form = self._rng.choice(forms)
            self._send(form, self._writer.write(Form(form.name, form.write, "S"), self._size()))

    def _post(self) -> None:
        forms = [f for f in self._forms if f.operations != "S" or self.spec.options.get("reload") == "upsert"]
        form = self._rng.choice(forms)
        if form.operations == "S" and not self._writer.streams:
            return
        changes = self._writer.write(form, self._size())
        if self._touched is not None and self.spec.keys:
            rows = [row for change in changes for row in (change.old, change.new) if row is not None]
            self._touched |= {self.spec.key(row) for row in rows}
        self._send(form, changes)

    def _size(self) -> int:
        return self._rng.choice((1, 2, self._rng.randrange(1, 20), self._rng.randrange(1, MAX_REQUEST)))

    def _send(self, form: Form, changes: Sequence[Change], *, load: str | None = None) -> None:
        """Post changes that are accepted, sometimes after a dry run and sometimes twice."""
        request = form.write(self._source, changes)
        step = self._step(f"{form.name}, {len(changes)} changes")
        dry_run = self._dry_run(request) if load is None and form.name != "arrow" and self._rng.random() < 0.1 else None
        headers = self._identity() | ({"Mirrorgate-Load": load} if load else {})
        answer = self._require(self._call(request, headers), 202).json()
        rows = sum(receipt["rows"] for receipt in answer["receipts"])
        self._batches.append(Batch(step, rows, self._fold.wanted(changes), dry_run))
        self._count(form.name, len(changes))
        if load is None and sum(receipt["changes"] for receipt in answer["receipts"]) != len(changes):
            raise Difference(f"{step}: {len(changes)} changes were sent, the answer says {answer}")
        if self._rng.random() < 0.15:
            again = self._require(self._call(request, headers), 200).json()
            if again | {"replayed": False} != answer:
                raise Difference(f"{step}: the repeated request was answered {again}, before {answer}")
            self.outcome.events["requests repeated"] += 1
        elif self.spec.options.get("source_order") == "enforce" and all(c.operation != "S" for c in changes):
            late = self._require(self._call(request, {}), 202).json()
            if (late["receipts"], late["duplicates"]) != ([], len(changes)):
                raise Difference(f"{step}: changes that were accepted before were answered {late}")
            self.outcome.events["requests of duplicates"] += 1

    def _dry_run(self, request: Request) -> list[dict[str, Any]] | None:
        answer = self._require(self._call(request, {}, dry_run="true"), 200).json()
        self.outcome.events["dry runs"] += 1
        return answer["tables"][0]["rows"] if answer["tables"] and "truncated" not in answer["tables"][0] else None

    def _post_bad(self) -> None:
        """Post a request that is rejected whole."""
        forms = [form for form in self._forms if form.is_text and "I" in form.operations]
        spoiled = self._writer.spoiled()
        if not forms or spoiled is None:
            return
        form = self._rng.choice(forms)
        row, _ = spoiled
        changes = spoil([Change("I", None, self._writer.new_row()) for _ in range(3)], row, self._rng.randrange(4))
        request = form.write(self._source, changes)
        self._step(f"{form.name}, rejected")
        self._require(self._call(request, self._identity(used=False)), 409, 422)
        self.outcome.events["requests rejected"] += 1

    def _post_with_letter(self) -> None:
        names = [form for form in self._forms if form.is_text and "I" in form.operations]
        forms = [form for form in names if not (form.name.startswith("debezium") and "without" not in form.name)]
        spoiled = self._writer.spoiled()
        if not forms or spoiled is None or self._touched is not None:
            return
        form, (row, column) = self._rng.choice(forms), spoiled
        if self.spec.keys:
            self._writer.reserved.add(self.spec.key(row))
        good = self._writer.write(Form(form.name, form.write, "I"), self._rng.randrange(1, 30))
        changes = spoil(good, row, self._rng.randrange(len(good) + 1))
        request = form.write(self._source, changes)
        step = self._step(f"{form.name}, {len(good)} changes and a dead letter")
        request.parameters["on_reject"] = "dead_letter"
        answer = self._require(self._call(request, self._identity()), 202).json()
        if answer["dead_letters"] != 1:
            raise Difference(f"{step}: one message is wrong, the answer says {answer}")
        rows = sum(receipt["rows"] for receipt in answer["receipts"])
        self._batches.append(Batch(step, rows, self._fold.wanted(good)))
        self._count(form.name, len(good))
        bad = next(change for change in changes if change.new is row)
        never_null = Column(column.name, column.kind, column.zone, nullable=False, declared=column.declared)
        self._letters.append(Letter(bad, column, random_value(self._rng, never_null)))

    def _replay_letters(self) -> None:
        """Replay what waits, with the value that it should have had."""
        if not self._letters or self._touched is not None:
            return
        path = f"{self._path}/dead-letters"
        listed = self._require(self._gateway.call("GET", path, params={"state": "waiting", "limit": 1000}), 200).json()
        waiting = [entry["id"] for entry in listed["letters"] if entry["generation"] == self._generation]
        if len(waiting) != len(self._letters):
            raise Difference(f"{len(self._letters)} dead letters were left, {len(waiting)} wait")
        for identity, letter in zip(waiting, self._letters, strict=True):
            step = self._step("replay of a dead letter")
            kept = self._require(self._gateway.call("GET", f"{path}/{identity}"), 200).text
            if self._rng.random() < 0.2:
                self._require(self._gateway.call("POST", f"{path}/{identity}/replay"), 422)
            text = as_text(letter.value, letter.column, self._rng)
            content = kept.replace(BAD, text).encode()
            if "dead_letters" not in self.spec.options or BAD not in kept:
                raise Difference(f"{step}: the kept message is not the one that was sent: {kept[:300]}")
            answer = self._require(self._gateway.call("POST", f"{path}/{identity}/replay", content=content), 202).json()
            change = corrected(letter.change, letter.column, letter.value)
            self._fold.apply([change])
            self._batches.append(Batch(step, answer["receipt"]["rows"], self._fold.wanted([change])))
            if self.spec.keys:
                self._writer.reserved.discard(self.spec.key(change.new or {}))
            self._count("dead letters replayed", 1)
        self._letters = []

    # What operators do

    def _run_load(self) -> None:
        """Load the table again while its stream continues."""
        self._replay_letters()
        mode = self._rng.choice(("full", "full", "append"))
        self._step(f"load {mode}")
        begun = self._require(self._gateway.call("POST", f"{self._path}/loads", json={"mode": mode}), 201).json()
        load, self._touched, loaded = begun["load"], set(), set[Key]()
        keys = [*self._fold.rows]
        wanted = self._rng.sample(keys, int(len(keys) * self._rng.random()))
        forms = [form for form in SENT if form.operations != "IUD" or form.name != "replicate keyed"]
        forms = [form for form in forms if form.name != "debezium records" and self._is_fit(form)]
        while wanted:
            part, wanted = wanted[:200], wanted[200:]
            if self._rng.random() < 0.5:
                self._post()
            form = self._rng.choice(forms)
            operation = self._rng.choice([one for one in form.operations if one in "IRS"])
            fresh = [self._writer.new_key() for _ in range(self._rng.randrange(3))]
            rows = [self._writer.new_row(key=key) for key in dict.fromkeys([*part, *fresh])]
            changes = [Change(operation, None, row) for row in rows]
            landing = [change for change in changes if self.spec.key(change.new or {}) not in self._touched]
            self._fold.apply(landing)
            loaded |= {self.spec.key(row) for row in rows}
            self._send_loaded(form, changes, landing, load)
        step = self._step("completed load")
        self._gateway.until(lambda: self._has_completed(load), "a load is completed")
        done = self._require(self._gateway.call("GET", f"{self._path}/loads/{load}"), 200).json()
        gone = [row for key, row in self._fold.rows.items() if key not in loaded | self._touched and mode == "full"]
        if done["deletes"] != len(gone):
            raise Difference(f"{step}: {len(gone)} rows were not loaded, the load deleted {done['deletes']}")
        changes = [Change("D", row, None) for row in gone]
        self._fold.apply(changes)
        self._batches.append(Batch(step, len(gone), self._fold.wanted(changes)))
        self._count("deletes of loads", len(gone))
        self._touched, self._writer.loaded = None, True
        self.outcome.events[f"{mode} loads"] += 1

    def _send_loaded(self, form: Form, changes: list[Change], landing: list[Change], load: str) -> None:
        request = form.write(self._source, changes)
        step = self._step(f"{form.name}, {len(changes)} loaded rows")
        headers = self._identity() | {"Mirrorgate-Load": load}
        answer = self._require(self._call(request, headers), 202).json()
        rows = sum(receipt["rows"] for receipt in answer["receipts"])
        self._batches.append(Batch(step, rows, self._fold.wanted(landing)))
        self._count("loaded rows", len(changes))

    def _has_completed(self, load: str) -> bool:
        answer = self._require(self._gateway.call("POST", f"{self._path}/loads/{load}/complete"), 200, 202)
        return answer.status_code == 200

    def _change_options(self) -> None:
        options = {"reload": self._rng.choice(("upsert", "reject"))} if self.spec.keys else {"new_columns": "reject"}
        self._step(f"options {options}")
        self.spec.options |= options
        self._require(self._gateway.call("PUT", self._path, json={"options": options}), 200)

    def _add_column(self) -> None:
        """Add a column by a registration, or as a text by the first message that has it."""
        if self._added == 2 or self._letters:
            return
        by_message = self.spec.options["new_columns"] == "add_as_string" and self._rng.random() < 0.5
        kind, declared = ADDED[0] if by_message else self._rng.choice(ADDED)
        forms = [form for form in self._forms if form.name in ADDING_FORMS]
        self.spec.columns.append(added_column(self.spec, self._added, kind, declared))
        self._added += 1
        if by_message and forms:
            form = self._rng.choice(forms)
            self._send(form, self._writer.write(Form(form.name, form.write, "I"), 3))
        else:
            self._step("added column")
            self._require(self._gateway.call("PUT", self._path, json=self.spec.registration), 200)
        self.outcome.events["columns added"] += 1

    # Generations

    def _begin_generation(self) -> None:
        """Recreate or rebuild the table, or go on."""
        chance = self._rng.random()
        if chance < 0.3:
            self._end_generation()
            self._step("recreate")
            self._begin("recreate")
            self._fold.rows.clear()
            self._fold.flagged.clear()
            self._fold.partly.clear()
            self._writer.forget()
            self._source.described = ()
        elif chance < 0.6 and self.spec.keeps_images and not self.spec.is_history and self._gateway.rebuilds:
            self._end_generation()
            step = self._step("rebuild")
            wanted = self._fold.rebuilt()
            self._begin("rebuild")  # with a filter, a batch without a row has a delete
            rows = self._status()["accepted"]["rows"] if "filter" in self.spec.options else len(wanted)
            self._batches.append(Batch(step, rows, wanted))

    def _begin(self, act: str) -> None:
        before = self._generation
        self._require(self._gateway.call("POST", f"{self._path}/{act}", params={"generation": before}), 200, 202)

        def has_begun() -> bool:
            status = self._status()
            rebuild = status.get("rebuild") or {}
            if rebuild.get("phase") == "failed":
                raise Difference(f"{self.place}: the rebuild failed: {rebuild}")
            over = act == "recreate" or rebuild.get("phase") in ("done", None)
            return bool(status["generation"] == before + 1 and status["state"] == "active" and over)

        self._gateway.until(has_begun, f"{self.spec.name} has generation {before + 1}")
        self._generation, self._batches = before + 1, []
        self.outcome.events[f"tables after {act}"] += 1

    def _end_generation(self) -> None:
        """Compare what landed with what should have, when everything is published."""
        self._replay_letters()
        self._step("comparison")
        rows = sum(batch.rows for batch in self._batches)
        self._gateway.until(lambda: self._is_published(rows), f"{self.spec.name} has published {rows} rows")
        self.landed = Landed(self._gateway.zone, self.spec)
        if rows:
            self.landed.compare(self._batches)
        if self.spec.keys and not self.spec.is_history:
            present = {key for key, found in self.landed.mirror.items() if found}
            if present != self._fold.rebuilt().keys():
                raise Difference(f"the mirror has {len(present)} rows, the source {len(self._fold.rebuilt())}")
        self.outcome.rows += self.landed.rows
        self.outcome.files += self.landed.files
        self._batches = []

    def _is_published(self, rows: int) -> bool:
        published = self._status()["published"]["rows"]
        if published > rows:
            raise Difference(f"{self.place}: {published} rows are published, the receipts say {rows}")
        return bool(published == rows)

    def _compare_mirror(self) -> None:
        """Compare the Delta table with the fold of the files, for some tables."""
        if self.spec.appends or self._rng.random() > 0.2 or not self.landed.files:
            return
        self._step("Delta mirror")
        self.landed.compare_delta(self._gateway.mirror(self.spec.name))
        self.outcome.events["Delta tables compared"] += 1

    # Calls

    @property
    def _path(self) -> str:
        return f"/v1/tables/{self.spec.name}"

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = self._require(self._gateway.call("GET", self._path), 200).json()
        return status

    def _call(self, request: Request, headers: dict[str, str], **parameters: str) -> httpx.Response:
        body, named = request.body, headers | {"Content-Type": request.content}
        if self._rng.random() < 0.1:
            body, named["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        return self._gateway.call(
            "POST", f"/v1/changes/{request.path}", params=request.parameters | parameters, content=body, headers=named
        )

    def _identity(self, *, used: bool = True) -> dict[str, str]:
        """Return headers that make a request safe to repeat; a rejected one leaves a producer's number unused."""
        if self._producer is None:
            return {"Idempotency-Key": str(UUID(int=self._rng.getrandbits(128)))}
        self._produced += used
        return {"Mirrorgate-Producer": self._producer, "Mirrorgate-Producer-Sequence": str(self._produced + (not used))}

    def _step(self, what: str) -> str:
        self._number += 1
        self.step = f"step {self._number}: {what}"
        return self.step

    def _count(self, what: str, changes: int) -> None:
        self.outcome.events[what] += changes
        self.outcome.changes += changes
        self._advance(changes)

    def _require(self, answer: httpx.Response, *wanted: int) -> httpx.Response:
        if answer.status_code not in wanted:
            told = json.dumps(answer.json(), ensure_ascii=False)[:700] if answer.content else ""
            raise Difference(f"{self.step}: answered {answer.status_code}, expected {wanted[0]}: {told}")
        return answer

    @property
    def options(self) -> str:
        """The table's options, for messages."""
        return ", ".join(described(self.spec.options))
