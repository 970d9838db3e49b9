"""Writing a model back, step by step on the embedded store: refused where the store has more, whole if tried again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from livesvm.service.errors import WritebackRefused
from livesvm.service.history.journal import Journal, Source
from livesvm.service.history.writeback import write_back
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import Fenced, SnapshotInfo, StoreBehind, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore

SPEC = HostedModel.encode_spec(ModelSpec(id="m"))


class Failing(SqliteStore):
    """Fails once on demand."""

    fails = False

    def supersede(self, *arguments: object) -> None:
        """Fail, once."""
        if self.fails:
            self.fails = False
            raise StoreUnavailable("now and then")
        super().supersede(*arguments)  # type: ignore[arg-type]


def before(sequence: int) -> ModelState:
    """Return the state that a record follows."""
    return replace(ModelState.empty(ModelSpec(id="m"), 1), sequence=sequence - 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Failing]:
    with closing(Failing(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def journal(store: Failing) -> Journal:
    """Of a model with three records, which the store has lost."""
    metrics = Metrics()
    lease = store.create("m", SPEC)
    journal = Journal(Source(store, Health(metrics), metrics), lease, 10)
    for sequence in (1, 2, 3):
        journal.append(before(sequence), b"record", None)
    store.delete(lease)
    return journal


def test_what_is_owed_to_the_lost_store_is_forgotten_and_old_leases_are_fenced(
    store: Failing, journal: Journal
) -> None:
    old = journal.lease
    journal.owe(lambda: pytest.fail("a debt to the store that is lost"))
    assert write_back(journal, SPEC, (3, b"three", 3)) is True
    assert write_back(journal, SPEC, (3, b"three", 3)) is False
    journal.settle()
    journal.append(before(4), b"record", None)
    assert [record.sequence for record in store.log("m", 0)] == [4]
    assert store.models()[0].spec == SPEC
    with pytest.raises(Fenced):
        store.append(old, 5, b"", None, keep=1)


def test_what_was_not_written_whole_stays_behind_until_it_is(store: Failing, journal: Journal) -> None:
    store.fails = True
    with pytest.raises(StoreUnavailable):
        write_back(journal, SPEC, (3, b"three", 3))
    journal.look()
    with pytest.raises(StoreBehind):
        journal.check_writable()
    assert write_back(journal, SPEC, (3, b"three", 3)) is True
    assert [(found.sequence, found.version) for found in store.snapshots("m")] == [(3, 3)]
    assert isinstance(store.snapshots("m")[0], SnapshotInfo)
    journal.check_writable()


def test_a_store_with_more_is_left_alone(store: Failing, journal: Journal) -> None:
    other = store.create("m", b"other", 2)
    assert write_back(journal, SPEC, (3, b"three", 3)) is True  # it had less
    with pytest.raises(Fenced):
        store.append(other, 3, b"", None, keep=1)
    journal.known = 9
    store.supersede(journal.lease, 7, b"seven", 7)
    with pytest.raises(WritebackRefused, match="more than what is to be written"):
        write_back(journal, SPEC, (6, b"six", 6))
    assert store.load_snapshot("m", 7) == b"seven"


@pytest.mark.parametrize("left", [None, 1])
def test_a_lost_or_older_model_is_not_taken_for_one_that_another_writer_has(
    left: int | None, store: Failing, journal: Journal, tmp_path: Path
) -> None:
    if left is not None:
        with closing(SqliteStore(tmp_path / "store")) as another:
            another.create("m", b"", left)
    with pytest.raises(StoreBehind):
        journal.append(before(4), b"record", None)
    assert (journal.behind, journal.fenced) == (True, False)


def test_a_model_that_another_writer_has_taken_over_is_fenced(journal: Journal, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store")) as another:
        another.create("m", b"", 3)
        with pytest.raises(Fenced):
            journal.append(before(4), b"record", None)
        assert (journal.behind, journal.fenced) == (False, True)
        with pytest.raises(WritebackRefused, match="another service"):
            write_back(journal, SPEC, (3, b"three", 3))
