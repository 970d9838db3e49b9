"""What every store must do."""

from __future__ import annotations

import threading
import time

import pytest

from livesvm.service import crash
from livesvm.service.store import redis, sqlite
from livesvm.service.store.base import (
    Appending,
    DocumentName,
    Durability,
    Fenced,
    Idempotency,
    Lease,
    LogRecord,
    ModelExists,
    ModelGone,
    OutOfSequence,
    Remembered,
    RequestKnown,
    Solution,
    Store,
    StoreDamaged,
    StoredModel,
)
from tests.contract.conftest import Open

KEEP = 100


def append(store: Store, lease: Lease, sequence: int, idempotency: Idempotency | None = None) -> Durability:
    return store.append(lease, sequence, b"record %d" % sequence, idempotency, keep=KEEP)


def records(store: Store, after: int = 0) -> list[int]:
    return [record.sequence for record in store.log("m", after)]


def kept(store: Store) -> list[int]:
    return [snapshot.sequence for snapshot in store.snapshots("m")]


def test_a_new_model_is_there_for_others(open_store: Open) -> None:
    open_store().create("m", b"spec \x00 m")
    open_store().create("a", b"spec a")
    assert open_store().models() == [StoredModel("a", b"spec a"), StoredModel("m", b"spec \x00 m")]


def test_a_model_is_created_once(store: Store) -> None:
    store.create("m", b"1")
    with pytest.raises(ModelExists):
        store.create("m", b"2")
    assert store.models() == [StoredModel("m", b"1")]


def test_records_come_back_in_order_from_any_place(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    for sequence in range(1, 601):
        append(store, lease, sequence)
    other = open_store()
    assert list(other.log("m", 597)) == [LogRecord(n, b"record %d" % n, aborted=False) for n in (598, 599, 600)]
    assert records(other) == list(range(1, 601))
    assert other.last_sequence(lease) == 600


def test_an_append_names_the_level_it_reached(store: Store) -> None:
    lease = store.create("m", b"")
    assert append(store, lease, 1) is store.durability()


@pytest.mark.parametrize("sequence", [0, 1, 3])
def test_a_record_follows_the_newest(store: Store, sequence: int) -> None:
    lease = store.create("m", b"")
    append(store, lease, 1)
    with pytest.raises(OutOfSequence):
        append(store, lease, sequence)
    assert records(store) == [1]


def test_records_of_many_models_are_appended_together_each_whole_or_not(open_store: Open) -> None:
    store = open_store()
    good, known, fenced = (store.create(model, b"") for model in "mkf")
    append(store, known, 1, Idempotency("r", b"body"))
    open_store().acquire("f")
    asked = [
        Appending(good, 1, b"one", Idempotency("r", b"body")),
        Appending(known, 2, b"two", Idempotency("r", b"body")),
        Appending(fenced, 1, b"one"),
        Appending(Lease("none", 1), 1, b"one"),
        Appending(good, 3, b"three"),
        Appending(good, 2, b"two"),
    ]
    level, refused = store.append_many(asked, keep=KEEP)
    assert level is store.durability()
    assert list(map(type, refused)) == [type(None), RequestKnown, Fenced, ModelGone, OutOfSequence, type(None)]
    assert [(record.sequence, record.data) for record in store.log("m", 0)] == [(1, b"one"), (2, b"two")]
    assert [len(list(store.log(model, 0))) for model in "kf"] == [1, 0]
    assert list(map(type, store.append_many(asked[-1:], keep=KEEP)[1])) == [OutOfSequence]  # all of them
    assert store.append_many([], keep=KEEP)[1] == []
    append(store, known, 2)
    store.remember_many([(good, "r", b"answer"), (fenced, "r", b"no"), (known, "none", b"no")])
    assert store.recall("m", "r") == Remembered(b"body", 1, b"answer")
    assert (store.recall("f", "r"), store.recall("k", "none")) == (None, None)
    assert store.remembering(["m", "k", "f", "none"], "r") == {"m", "k"}
    assert store.remembering([], "r") == store.remembering(["m", "k"], "none") == set()


def test_the_newest_writer_fences_the_others(open_store: Open) -> None:
    old_store, new_store = open_store(), open_store()
    old = old_store.create("m", b"")
    append(old_store, old, 1, Idempotency("k", b"body"))
    new = new_store.acquire("m")
    assert new.epoch > old.epoch
    for write in (
        lambda: append(old_store, old, 2),
        lambda: old_store.abort(old, 1),
        lambda: old_store.remember(old, "k", b"answer"),
        lambda: old_store.save_snapshot(old, 1, b"snapshot", 1),
        lambda: old_store.describe(old, 1, b"stale"),
        lambda: old_store.last_sequence(old),
        lambda: old_store.put_requests(old, {"k": Remembered(b"", 1, None)}),
        lambda: old_store.forget_requests(old, ["k"]),
        lambda: old_store.release(old),
        lambda: old_store.retake(old, 1),
        lambda: old_store.delete(old),
    ):
        with pytest.raises(Fenced):
            write()
    append(new_store, new, 2)
    assert list(new_store.log("m", 0)) == [LogRecord(1, b"record 1", False), LogRecord(2, b"record 2", False)]
    assert new_store.snapshots("m") == []
    assert [found.summary for found in new_store.index()] == [b""]


def test_a_deleted_model_is_gone_and_fences_its_writer(store: Store) -> None:
    lease = store.create("m", b"")
    append(store, lease, 1, Idempotency("k", b"body"))
    store.save_snapshot(lease, 1, b"snapshot", 1)
    store.delete(lease)
    assert (store.models(), records(store), kept(store), store.recall("m", "k")) == ([], [], [], None)
    with pytest.raises(Fenced):
        append(store, lease, 2)
    with pytest.raises(Fenced):
        store.acquire("m")


def test_a_model_made_again_starts_empty(store: Store) -> None:
    lease = store.create("m", b"")
    append(store, lease, 1)
    store.delete(lease)
    assert append(store, store.create("m", b"new"), 1)
    assert records(store) == [1]


def test_an_aborted_record_stays_and_frees_its_request(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    append(store, lease, 1, Idempotency("k", b"body"))
    store.abort(lease, 1)
    append(store, lease, 2, Idempotency("k", b"other body"))
    other = open_store()
    assert [record.aborted for record in other.log("m", 0)] == [True, False]
    assert other.recall("m", "k") == Remembered(b"other body", 2, None)


def test_aborting_what_was_never_written_does_nothing(store: Store) -> None:
    lease = store.create("m", b"")
    store.abort(lease, 1)
    append(store, lease, 1)
    assert [record.aborted for record in store.log("m", 0)] == [False]


def test_a_request_and_its_answer_are_remembered(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    assert store.recall("m", "k") is None
    append(store, lease, 1, Idempotency("k", b"body"))
    assert open_store().recall("m", "k") == Remembered(b"body", 1, None)
    store.remember(lease, "k", b"answer")
    assert open_store().recall("m", "k") == Remembered(b"body", 1, b"answer")
    assert store.recall("other", "k") is None


def test_old_requests_are_forgotten(store: Store) -> None:
    lease = store.create("m", b"")
    for sequence in range(1, KEEP + 3):
        append(store, lease, sequence, Idempotency(str(sequence), b""))
    assert store.recall("m", "2") is None
    assert store.recall("m", "3") == Remembered(b"", 3, None)


def test_two_snapshots_are_kept_and_the_log_behind_the_older_is_trimmed(store: Store) -> None:
    lease = store.create("m", b"")
    for sequence in range(1, 10):
        append(store, lease, sequence)
        if sequence == 3:
            store.save_snapshot(lease, 3, b"three", 3)
            assert records(store) == [1, 2, 3]
    store.save_snapshot(lease, 6, b"six", 6)
    assert (kept(store), records(store)) == ([6, 3], [4, 5, 6, 7, 8, 9])
    store.save_snapshot(lease, 9, b"nine", 9)
    assert (kept(store), records(store)) == ([9, 6], [7, 8, 9])
    assert store.load_snapshot("m", 6) == b"six"
    with pytest.raises(StoreDamaged):
        store.load_snapshot("m", 3)
    assert store.last_sequence(lease) == 9


def test_a_snapshot_at_the_same_record_replaces(store: Store) -> None:
    lease = store.create("m", b"")
    append(store, lease, 1)
    store.save_snapshot(lease, 1, b"first", 1)
    store.save_snapshot(lease, 1, b"second", 1)
    assert kept(store) == [1]
    assert store.load_snapshot("m", 1) == b"second"


def test_a_large_snapshot_comes_back_whole(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    data = bytes(range(256)) * 2**16
    store.save_snapshot(lease, 0, data, 0)
    assert open_store().load_snapshot("m", 0) == data


def test_the_newest_solution_is_kept_and_goes_with_its_model(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    assert store.solution("m") is None
    for solution in (Solution(7, b"seven"), Solution(6, bytes(range(256)) * 2**12)):
        store.save_solution(lease, solution)
        assert open_store().solution("m") == solution
    assert store.solution("m2") is None
    other = open_store()
    newer = other.acquire("m")
    with pytest.raises(Fenced):
        store.save_solution(lease, Solution(8, b"stale"))
    assert other.solution("m") == solution
    other.delete(newer)
    assert other.solution("m") is None
    store.create("m", b"")
    assert store.solution("m") is None


def test_one_snapshot_can_stand_for_all_that_was_stored(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    for sequence in (1, 2, 3):
        append(store, lease, sequence, Idempotency(str(sequence), b"body"))
        store.save_snapshot(lease, sequence, b"old", sequence)
    store.abort(lease, 3)
    store.save_solution(lease, Solution(3, b"solution"))
    store.supersede(lease, 7, b"seven", 6)
    other = open_store()
    assert (kept(other), records(other), other.load_snapshot("m", 7)) == ([7], [], b"seven")
    assert (other.solution("m"), other.last_sequence(lease)) == (None, 7)
    assert other.recall("m", "2") == Remembered(b"body", 2, None)
    append(store, lease, 8)
    assert (records(other), [r.aborted for r in other.log("m", 0)]) == ([8], [False])
    with pytest.raises(OutOfSequence):
        store.supersede(lease, 7, b"older", 6)
    newer = other.acquire("m")
    with pytest.raises(Fenced):
        store.supersede(lease, 9, b"stale", 8)
    store.supersede(newer, 8, b"eight", 7)
    assert (kept(other), records(other)) == ([8], [])


def test_models_do_not_see_each_other(store: Store) -> None:
    first, second = store.create("m", b""), store.create("m2", b"")
    append(store, first, 1)
    append(store, second, 1)
    append(store, second, 2)
    store.save_snapshot(second, 2, b"two", 2)
    store.delete(second)
    assert (records(store), kept(store), store.last_sequence(first)) == ([1], [], 1)


def test_writers_of_many_models_do_not_disturb_each_other(store: Store) -> None:
    leases = [store.create(f"m{number}", b"") for number in range(4)]

    def write(lease: Lease) -> None:
        for sequence in range(1, 26):
            append(store, lease, sequence)

    threads = [threading.Thread(target=write, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.last_sequence(lease) for lease in leases] == [25] * 4


def test_of_two_writers_with_one_sequence_only_one_succeeds(open_store: Open) -> None:
    first, second = open_store(), open_store()
    lease = first.create("m", b"")
    append(first, lease, 1)
    with pytest.raises(OutOfSequence):
        append(second, lease, 1)


def test_a_reachable_store_answers_a_ping(store: Store) -> None:
    before = store.models()
    store.ping()
    assert store.models() == before


def test_a_model_made_again_fences_the_writer_of_its_namesake(open_store: Open) -> None:
    old_store, new_store = open_store(), open_store()
    old = old_store.create("m", b"")
    new_store.delete(new_store.acquire("m"))
    new_store.create("m", b"")
    with pytest.raises(Fenced):
        append(old_store, old, 1)


def test_a_request_is_appended_once(store: Store) -> None:
    lease = store.create("m", b"")
    append(store, lease, 1, Idempotency("k", b"body"))
    with pytest.raises(RequestKnown):
        append(store, lease, 2, Idempotency("k", b"body"))
    assert records(store) == [1]
    assert store.last_sequence(lease) == 1


def test_taking_ones_own_model_again_fences_what_is_still_under_way(store: Store) -> None:
    first = store.create("m", b"")
    append(store, first, 1)
    second, newest = store.retake(first, 1)
    assert (newest, second.epoch > first.epoch) == (1, True)
    with pytest.raises(Fenced):
        append(store, first, 2)
    append(store, second, 2)


def test_taking_again_succeeds_when_the_answer_to_the_first_try_was_lost(store: Store) -> None:
    first = store.create("m", b"")
    lost, _ = store.retake(first, 1)
    found, _ = store.retake(first, 2)
    with pytest.raises(Fenced):
        append(store, lost, 1)
    with pytest.raises(Fenced):  # the first try arrives late
        store.retake(first, 1)
    append(store, found, 1)


def test_heads_say_where_models_stand(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    append(store, lease, 1)
    heads = open_store().heads(["m", "absent"])
    assert list(heads) == ["m"]
    assert (heads["m"].lease, heads["m"].sequence) == (lease, 1)
    assert store.heads([]) == {}


def test_a_released_model_can_be_taken(open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"")
    store.release(lease)
    assert open_store().acquire("m").epoch > lease.epoch


def test_a_log_may_begin_after_records_that_another_store_held(store: Store) -> None:
    lease = store.create("m", b"", 7)
    store.save_snapshot(lease, 7, b"seven", 5)
    append(store, lease, 8)
    store.put_requests(lease, {"old": Remembered(b"\x00:body", 6, b"\x00"), "bare": Remembered(b"", 7, None)})
    assert (records(store), kept(store), store.last_sequence(lease)) == ([8], [7], 8)
    assert store.requests("m") == {"old": Remembered(b"\x00:body", 6, b"\x00"), "bare": Remembered(b"", 7, None)}
    assert store.recall("m", "old") == Remembered(b"\x00:body", 6, b"\x00")


def test_a_snapshot_says_what_it_holds(store: Store) -> None:
    lease = store.create("m", b"")
    before = time.time()
    store.save_snapshot(lease, 9, b"data", 4)
    found = store.snapshots("m")[0]
    assert (found.sequence, found.version, found.size) == (9, 4, 4)
    assert before - 1 <= found.saved_at <= time.time() + 1


def test_an_empty_snapshot_comes_back(store: Store) -> None:
    lease = store.create("m", b"")
    store.save_snapshot(lease, 0, b"", 0)
    assert store.load_snapshot("m", 0) == b""


def test_aborted_marks_leave_with_their_records(store: Store) -> None:
    lease = store.create("m", b"")
    for sequence in range(1, 5):
        append(store, lease, sequence)
        store.abort(lease, sequence)
    store.save_snapshot(lease, 2, b"", 0)
    store.save_snapshot(lease, 3, b"", 0)
    assert [(record.sequence, record.aborted) for record in store.log("m", 0)] == [(3, True), (4, True)]


def test_documents_are_kept_by_kind_and_name(open_store: Open) -> None:
    store, first, second = open_store(), DocumentName("dataset", "a:b"), DocumentName("feed", "a:b")
    assert store.documents() == []
    assert store.document(first) is None
    store.put_document(second, b"of the feed \x00")
    store.put_document(first, b"old")
    store.put_document(first, b"")
    other = open_store()
    assert other.documents() == [first, second]
    assert other.documents("feed") == [second]
    assert [other.document(at) for at in (first, second)] == [b"", b"of the feed \x00"]
    assert other.delete_document(first)
    assert not other.delete_document(first)
    assert store.documents() == [second]
    assert store.models() == []


def test_a_document_is_always_one_that_was_put(open_store: Open) -> None:
    at, values = DocumentName("dataset", "d"), [bytes([n]) * 5000 for n in range(4)]
    seen: set[bytes | None] = set()
    open_store().put_document(at, values[0])

    def put(store: Store, value: bytes) -> None:
        """Put many documents."""
        for _ in range(10):
            store.put_document(at, value)

    writers = [threading.Thread(target=put, args=(open_store(), value)) for value in values]
    for writer in writers:
        writer.start()
    reader = open_store()
    while any(writer.is_alive() for writer in writers):
        seen.add(reader.document(at))
    assert seen <= set(values)


def test_requests_are_forgotten_by_name(store: Store) -> None:
    lease = store.create("m", b"")
    for sequence, name in enumerate(("one", "two", "three"), 1):
        append(store, lease, sequence, Idempotency(name, b"body"))
        store.remember(lease, name, b"answer")
    store.forget_requests(lease, ["one", "three", "nobody"])
    store.forget_requests(lease, [])
    assert store.requests("m") == {"two": Remembered(b"body", 2, b"answer")}
    assert store.recall("m", "one") is None
    append(store, lease, 4, Idempotency("one", b"another"))
    assert records(store) == [1, 2, 3, 4]


@pytest.mark.parametrize("wholly", [False, True])
def test_a_wiped_store_holds_what_it_held(wholly: bool, open_store: Open) -> None:
    store = open_store()
    lease = store.create("m", b"spec")
    append(store, lease, 1, Idempotency("k", b"body"))
    store.save_snapshot(lease, 1, b"snapshot", 1)
    store.put_document(DocumentName("kind", "name"), b"document")
    gone = store.create("gone", b"")
    store.save_snapshot(gone, 1, b"secret" * 1000, 1)
    store.delete(gone)
    reported = store.wipe(wholly=wholly)
    assert all(isinstance(what, str) for what in reported.values())
    append(store, lease, 2)
    other = open_store()
    assert other.models() == [StoredModel("m", b"spec")]
    assert records(other) == [1, 2]
    assert other.load_snapshot("m", 1) == b"snapshot"
    assert other.requests("m") == {"k": Remembered(b"body", 1, None)}
    assert other.document(DocumentName("kind", "name")) == b"document"


def index(store: Store) -> list[tuple[str, int, bytes, int]]:
    return [(found.id, found.sequence, found.summary, found.described) for found in store.index()]


def test_an_index_names_every_model_with_its_newest_record_and_the_summary_that_was_stored_last(
    open_store: Open,
) -> None:
    store, other = open_store(), open_store()
    assert index(store) == []
    store.create("bare", b"spec")
    lease = store.create("m", b"spec", 7, b"made \x00")
    assert index(other) == [("bare", 0, b"", 0), ("m", 7, b"made \x00", 7)]
    append(store, lease, 8)
    assert index(other) == [("bare", 0, b"", 0), ("m", 8, b"made \x00", 7)]
    store.describe(lease, 8, b"described")
    assert index(other) == [("bare", 0, b"", 0), ("m", 8, b"described", 8)]
    store.describe(lease, 8, b"")
    assert index(other) == [("bare", 0, b"", 0), ("m", 8, b"", 0)]
    store.delete(lease)
    assert [found.damage for found in store.index()] == [""]
    assert index(other) == [("bare", 0, b"", 0)]


def test_an_index_of_some_leaves_out_what_is_not_stored(store: Store) -> None:
    for name in "abc":
        store.create(name, b"", 1, name.encode())
    assert [found.summary for found in store.index(["c", "x", "a"])] in ([b"a", b"c"], [b"c", b"a"])
    assert list(store.index([])) == []


def test_a_summary_takes_the_place_of_the_one_before_with_each_snapshot(store: Store) -> None:
    lease = store.create("m", b"", 0, b"empty")
    for sequence in (1, 2, 3):
        append(store, lease, sequence)
    store.save_snapshot(lease, 2, b"two", 2, b"of two")
    assert index(store) == [("m", 3, b"of two", 2)]
    store.save_snapshot(lease, 3, b"three", 3)
    assert index(store) == [("m", 3, b"", 0)]
    store.save_snapshot(lease, 3, b"three", 3, b"of three")
    store.supersede(lease, 3, b"erased", 3)
    assert index(store) == [("m", 3, b"", 0)]
    store.supersede(lease, 5, b"erased", 4, b"of five")
    assert index(store) == [("m", 5, b"of five", 5)]


def test_a_snapshot_that_is_cut_off_leaves_the_summary(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = store.create("m", b"", 0, b"before")
    append(store, lease, 1)
    with monkeypatch.context() as cut:
        cut.setattr(crash, "point", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.save_snapshot(lease, 1, b"snapshot", 1, b"after")
    assert (kept(store), index(store)) == ([], [("m", 1, b"before", 0)])
    store.save_snapshot(lease, 1, b"snapshot", 1, b"after")
    assert (kept(store), index(store)) == ([1], [("m", 1, b"after", 1)])


def test_many_models_are_read_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PAGE", 3)
    monkeypatch.setattr(redis, "MODELS", 3)
    names = [f"m{number}" for number in range(7)]
    leases = {name: store.create(name, b"", number) for number, name in enumerate(names)}
    assert sorted((found.id, found.sequence) for found in store.index()) == list(zip(names, range(7), strict=True))
    heads = store.heads(reversed([*names, "absent"]))
    assert {name: head.lease for name, head in heads.items()} == leases
    assert {found.id for found in store.index(names[:4])} == {*names[:4]}


def test_one_model_is_read_alone(open_store: Open) -> None:
    store = open_store()
    assert store.model("m") is None
    lease = store.create("m", b"spec \x00")
    store.create("other", b"")
    assert open_store().model("m") == StoredModel("m", b"spec \x00")
    store.delete(lease)
    assert store.model("m") is None


def test_a_model_that_is_created_or_deleted_is_learnt_of_in_one_call(open_store: Open) -> None:
    store, other = open_store(), open_store()
    seen = [other.changes()]
    lease = store.create("m", b"")
    seen.append(other.changes())
    append(store, lease, 1)
    store.save_snapshot(store.acquire("m"), 1, b"", 1, b"summary")
    assert other.changes() == seen[-1]
    store.delete(store.acquire("m"))
    seen.append(other.changes())
    assert seen == sorted({*seen}) if store.shared else seen == [0, 0, 0]


def test_a_service_that_never_was_is_silent(store: Store) -> None:
    assert store.is_silent("nobody")


def test_writers_go_on_after_all_is_released_until_another_takes_a_model(open_store: Open) -> None:
    store = open_store()
    leases = {name: store.create(name, b"") for name in ("a", "m")}
    store.release_all()
    append(store, leases["m"], 1)
    assert [found.holder for found in store.index()] == ["", ""]
    other = open_store()
    newer = other.acquire("m")
    with pytest.raises(Fenced):
        append(store, leases["m"], 2)
    append(other, newer, 2)
    append(store, leases["a"], 1)
