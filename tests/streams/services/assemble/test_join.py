"""Join without Kafka: what it writes is a function of the log, whatever the batches, aborts, kills and rebalances."""

import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from random_log import random_log
from small_spans import START_MS, TOPIC, joined, log, mark_record, span, spans_record
from structlog.testing import capture_logs
from worker import Worker, joined_by_worker

from ragweir.errors import StateError
from ragweir.schemas.assembly import AssemblyEntry
from ragweir.streams.runtime.records import Emission, Record
from ragweir.streams.services.join.open_traces import OpenTraces
from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.wire import SpanHead

SETTINGS = (
    AssembleSettings(),
    AssembleSettings(remember_s=120, max_remembered=3),
    AssembleSettings(max_spans=3, max_interactions=2),
    AssembleSettings(max_behind_bytes=1024 * 1024).model_copy(update={"max_behind_bytes": 9_000}),
    AssembleSettings().model_copy(update={"max_held_bytes": 16_000, "max_trace_bytes": 500}),
)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=("default", "forgetful", "few-spans", "not-far-behind", "small"))
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(1, 6))])
def test_what_is_written_equals_the_batch_reference(seed: int, settings: AssembleSettings) -> None:
    """Byte for byte, for batches of 1, 7 and 5,000 records, in peace and with aborts, kills and rebalances."""
    rng = random.Random(seed)
    log = random_log(rng, 40)
    expected = joined(log, settings)
    assert {each[0] for each in expected} == {"interactions", "dead-letter"}
    for most in (1, 7, 5_000):
        for trouble in (0.0, 0.1):
            worker = Worker([log], settings)
            worker.run(most, rng, trouble if most > 1 else trouble / 10)
            assert worker.results() == expected


@pytest.mark.slow
def test_two_partitions_share_transactions_and_no_state() -> None:
    """Each writes what the reference of its own log says, in order, through aborts, kills and rebalances."""
    rng = random.Random(7)
    logs = [random_log(rng, 25, partition=partition) for partition in range(2)]
    worker = Worker(logs, SETTINGS[0])
    worker.run(50, rng, 0.1)
    expected = Counter(each for log in logs for each in joined(log, SETTINGS[0]))
    assert Counter(worker.results()) == expected


@pytest.mark.parametrize("limit", [50, 96, 200])
def test_a_transaction_settles_as_much_as_it_may_over_all_partitions(limit: int) -> None:
    """24 traces of each are due."""
    worker = Worker([asks(30, partition=partition) for partition in range(4)], AssembleSettings())
    worker.limit = limit
    worker.batch(1_000)
    assert len(worker.written) == min(limit, 4 * 24)


# Single traces.


def written(
    items: Sequence[tuple[float, Sequence[Any]]], end_s: float = 10_000, **settings: Any
) -> list[dict[str, Any]]:
    """The interactions of one trace of these records, with a mark after each second that has any."""
    records = [mark_record(0, [0.0])]
    for time_s, spans in items:
        records.append(spans_record(len(records), 1, time_s, spans))
        records.append(mark_record(len(records), [time_s]))
    records += [mark_record(len(records) + number, [end_s]) for number in range(2)]
    worker = joined_by_worker(records, AssembleSettings(**settings), 5_000)
    assert worker.results() == joined(records, AssembleSettings(**settings))
    return [json.loads(each.value or b"{}") | {"topic": each.topic} for each in worker.written]


def test_spans_of_two_processes_whose_sdks_batch_for_five_seconds_make_one_interaction() -> None:
    """The root comes first and is complete; the other process exports its spans 5 seconds later."""
    one = written([(0, [span(1, None, "ask"), span(2, 1)]), (5, [span(3, 2, remote=True), span(4, 3)])])
    assert [each["response"].count(":") for each in one] == [8]


def test_a_remote_parent_that_never_comes_is_not_waited_for() -> None:
    """It is emitted at settle, not at patience: spans of the next minute are late."""
    records = [spans_record(0, 1, 0, [span(1, 99, "ask", remote=True)]), mark_record(1, [6])]
    records += [spans_record(2, 1, 7, [span(2, 1)]), mark_record(3, [100]), mark_record(4, [100])]
    worker = joined_by_worker(records, AssembleSettings(), 1)
    assert [json.loads(each.value or b"")["response"] for each in worker.written] == [f"{1:016x}::False"]
    assert worker.results() == joined(records, AssembleSettings())


def test_a_missing_parent_is_waited_for_until_patience() -> None:
    """A parent of the same process that comes after 50 seconds is still its parent."""
    one = written([(0, [span(2, 1)]), (50, [span(1, None, "ask")])])
    assert [each["response"] for each in one] == [f"{1:016x}::False {2:016x}::False"]
    assert [each["assembly"]["flags"] for each in written([(0, [span(2, 1, "ask")])])] == [["spans_missing"]]


def test_a_session_as_one_trace_is_emitted_question_by_question_and_never_twice() -> None:
    """Later questions below the same parent are new; repeated ones, spans of emitted ones and the parent are not."""
    asked = [
        (900.0 * number, [span(100 * number, 1, "ask"), span(100 * number + 1, 100 * number)]) for number in (1, 2, 3)
    ]
    repeated = [(3000.0, [span(100, 1, "ask", text="again"), span(102, 101), span(1, None)])]
    found = written([*asked, *repeated, (3100, [span(400, 1, "ask")])], remember_s=10_000)
    assert [each["event_id"] for each in found] == [f"trace:{n:016x}" for n in (100, 200, 300, 400)]


def test_a_trace_that_never_rests_is_emitted_at_its_deadline() -> None:
    """As incomplete, with all that came before the record at which it was due."""
    spans = [(20.0 * number, [span(number + 1, number or None, "ask")]) for number in range(60)]
    found = written(spans)
    assert found[0]["assembly"]["flags"] == ["incomplete"]
    assert len(found) == 1


def test_the_span_that_ended_last_counts_among_repeated_ids() -> None:
    found = written([(0, [span(1, None, "ask", text="old")]), (1, [{**span(1, None, "ask", text="new"), "ended": 2}])])
    assert [each["query"] for each in found] == ["new"]


def test_a_trace_without_genai_spans_and_one_of_logs_only_write_nothing() -> None:
    assert written([(0, [span(1, None, "http")])]) == []
    assert written([(0, [log(1)])]) == []


def test_a_genai_trace_without_an_interaction_is_a_dead_letter_without_text() -> None:
    worker = Worker([[spans_record(3, 1, 0, [span(1, None, "llm", text="secret")])]], AssembleSettings())
    worker.logs = [[*worker.logs[0], *(mark_record(number, [100]) for number in (4, 5))]]
    worker.run(10)
    (letter,) = worker.written
    headers = dict(letter.headers)
    assert (letter.topic, letter.value, letter.key) == ("dead-letter", None, f"{1:032x}".encode())
    assert headers["ragweir-error-class"] == b"no_root"
    assert b"1 spans and 0 log records from offset 3 on (no_root)" in (headers["ragweir-message"] or b"")
    assert b"secret" not in repr(worker.written).encode()


def test_an_interaction_over_the_limit_is_a_dead_letter_and_its_neighbours_are_not() -> None:
    spans = [span(1, None), span(2, 1, "ask"), span(3, 1, "ask", text="x" * 3_000), span(4, 1, "ask")]
    records = [spans_record(0, 1, 0, spans), mark_record(1, [100]), mark_record(2, [101])]
    worker = Worker([records], AssembleSettings(), max_event_bytes=2_500)
    worker.run(10)
    assert worker.results() == joined(records, AssembleSettings(), max_event_bytes=2_500)
    assert [each.topic for each in worker.written] == ["interactions", "dead-letter", "interactions"]


def test_the_clock_is_that_of_the_slowest_source() -> None:
    """A source partition that is behind, or has no mark yet, holds every trace open."""
    records = [spans_record(0, 1, 0, [span(1, None, "ask")])]
    records += [mark_record(number, [1000, None]) for number in (1, 2)]
    records += [mark_record(number, [2000, 5]) for number in (3, 4)]
    records += [spans_record(5, 1, 5, [span(2, 1)]), mark_record(6, [2000, 11]), mark_record(7, [2000, 11])]
    worker = joined_by_worker(records[:6], AssembleSettings(), 1)
    assert worker.written == []
    worker.logs = [records]
    worker.run(1)
    assert [json.loads(each.value or b"")["response"].count(":") for each in worker.written] == [4]


# What Kafka may do.


def entries(worker: Worker, partition: int = 0) -> list[AssemblyEntry]:
    return [AssemblyEntry.model_validate_json(record.value or b"") for record in worker.ledgers[partition]]


def asks(count: int, first: int = 0, gap_s: float = 1.0, offset: int = 0, partition: int = 0) -> list[Record]:
    """A log of so many traces of one span, one a second, each with a mark."""
    records = []
    for number in range(first, first + count):
        time_s = number * gap_s
        records.append(spans_record(offset + len(records), number, time_s, [span(number + 1, None, "ask")]))
        records.append(mark_record(offset + len(records), [time_s]))
    return [record._replace(partition=partition) for record in records]


def event_numbers(worker: Worker) -> list[int]:
    return [int((each.key or b"").decode().split(":")[1], 16) - 1 for each in worker.written]


def test_what_kafka_rejects_is_found_by_halving_and_becomes_one_dead_letter() -> None:
    """Ten traces are due at once, and Kafka rejects one of the interactions: all others are written in order."""
    records = [spans_record(number, number, 0, [span(number + 1, None, "ask")]) for number in range(10)]
    records += [mark_record(number, [100 + number]) for number in range(10, 40)]
    worker = Worker([records], AssembleSettings())
    worker.refuses = lambda emission: emission.topic == "interactions" and (emission.key or b"").endswith(b"7")
    worker.run(5_000)
    assert [each.topic for each in worker.written] == ["interactions"] * 6 + ["dead-letter"] + ["interactions"] * 3
    headers = dict(worker.written[6].headers)
    assert (headers["ragweir-error-class"], headers["ragweir-source-offset"]) == (b"refused", b"6")


def test_a_worker_that_dies_when_a_part_of_what_was_due_is_committed_loses_nothing() -> None:
    """The entry of a transaction is the state after its own results, though more had been made."""
    records = [spans_record(number, number, 0, [span(number + 1, None, "ask")]) for number in range(10)]
    records += [mark_record(number, [100 + number]) for number in range(10, 40)]
    worker = Worker([records], AssembleSettings())
    worker.batch(5_000, aborts=True)
    worker.limit = 3
    worker.batch(5_000)
    assert event_numbers(worker) == [0, 1, 2]
    worker.restart(5_000)
    assert event_numbers(worker) == list(range(10))


def test_a_ledger_that_does_not_fit_the_committed_offset_stops_the_worker() -> None:
    """An emptied ledger, an offset that was moved and one that is gone: each says what to do."""
    worker = joined_by_worker(asks(30), AssembleSettings(), 10)
    for change, words in (
        (worker.ledgers.clear, "no ledger to go on from"),
        (lambda: worker.committed.update({0: 3}), "group's committed offset is 3"),
        (worker.committed.clear, "group's committed offset is gone"),
    ):
        before = dict(worker.ledgers), dict(worker.committed)
        change()
        with pytest.raises(StateError, match=words):
            worker.kill()
        worker.ledgers.update(before[0])
        worker.committed.update(before[1])
    worker.kill()


def test_offsets_of_a_recreated_topic_begin_again_and_emitted_traces_are_remembered() -> None:
    worker = joined_by_worker(asks(30), AssembleSettings(), 10)
    assert event_numbers(worker) == list(range(24))
    late = spans_record(0, 3, 31, [span(4, None, "ask")])
    worker.recreate([[late, *asks(100, 31, offset=1)]])
    worker.restart(10)
    worker.restart(10)
    assert event_numbers(worker) == [*range(24), *range(31, 125)]


def test_retention_that_overtook_the_committed_offset_flags_the_traces_around_the_gap() -> None:
    """Those that begin within the patience after it, and no others."""
    log = asks(300)
    worker = joined_by_worker(log[:100], AssembleSettings(), 10)
    worker.logs = [log]
    worker.read_from(0, 200)
    worker.restart(10)
    worker.restart(10)
    values = [json.loads(each.value or b"") for each in worker.written]
    flags = {n: each["assembly"]["flags"] for n, each in zip(event_numbers(worker), values, strict=True)}
    missed = [number for number, own in flags.items() if own == ["spans_missed"]]
    assert sorted(flags) == [*range(44), *range(100, 294)]
    assert missed == list(range(100, 160))


def test_retention_that_deleted_records_of_open_traces_only_flags_what_is_left_of_them() -> None:
    """Nothing is unread: traces that are open across the gap are flagged, and emitted ones are not emitted again."""
    log = [
        spans_record(0, 99, 0, [span(2, 1)]),
        *asks(50, 1, offset=1),
        spans_record(101, 99, 51, [span(1, None, "ask")]),
    ]
    worker = joined_by_worker(log, AssembleSettings(), 10)
    assert worker.committed[0] == 0
    worker.logs = [[*log, *(mark_record(200 + number, [500 + number]) for number in range(3))]]
    worker.read_from(0, 95)
    worker.restart(10)
    numbers = event_numbers(worker)
    assert sorted(numbers) == [0, *range(1, 45), 48, 49, 50]
    last = {number: json.loads(each.value or b"") for number, each in zip(numbers, worker.written, strict=True)}
    assert {number for number, each in last.items() if each["assembly"]["flags"]} == {0, 48, 49, 50}


def test_a_partition_that_comes_back_unchanged_is_gone_on_with_and_a_changed_one_is_restored() -> None:
    """After a rebalance nothing is read twice, unless another worker has had the partition meanwhile."""
    log = asks(30)
    worker = joined_by_worker(log, AssembleSettings(), 10)
    worker.rebalance()
    assert worker.consumed[0] == 60 > worker.committed[0]
    first = worker.agent
    first.on_revoked([(TOPIC, 0)])
    worker.logs = [asks(34)]
    worker.restart(10)
    other = worker.agent
    other.on_revoked([(TOPIC, 0)])
    worker.agent = first
    worker.assign()
    assert worker.consumed[0] == worker.committed[0]
    worker.logs = [asks(40)]
    worker.run(10)
    assert event_numbers(worker) == list(range(34))


def test_an_added_partition_begins_with_a_clock_and_a_ledger_of_its_own() -> None:
    worker = joined_by_worker(asks(30), AssembleSettings(), 10)
    added = [record._replace(partition=1) for record in asks(30, 100)]
    worker.grow(added)
    worker.run(10)
    worker.restart(10)
    assert event_numbers(worker) == [*range(24), *range(100, 124)]
    assert entries(worker, 1)[0].next == 0


def test_foreign_records_in_the_ledger_are_ignored() -> None:
    worker = joined_by_worker(asks(30), AssembleSettings(), 10)
    for value in (b"{", b"[]", None, b'{"committed": 1}'):
        worker.ledgers[0].append(Record("rag.assembly", 0, worker.ends[0], None, value, 0))
        worker.ends[0] += 1
    worker.kill()
    worker.logs = [asks(60)]
    worker.run(10)
    assert event_numbers(worker) == list(range(54))


def test_the_record_that_asks_for_the_brokers_time_is_no_entry_of_the_ledger() -> None:
    worker = joined_by_worker(asks(30), AssembleSettings(), 10)
    with capture_logs() as logged:
        for record in (worker.agent.clock_record, Emission("assembly", b"x", None, ())):
            worker.ledgers[0].append(Record("rag.assembly", 0, worker.ends[0], record.key, record.value, 0))
            worker.ends[0] += 1
        worker.kill()
    assert [each["records"] for each in logged if "foreign" in each["event"]] == [1]
    worker.logs = [asks(60)]
    worker.run(10)
    assert event_numbers(worker) == list(range(54))


def test_a_quiet_ledger_is_told_again_before_retention_deletes_it() -> None:
    worker = joined_by_worker(asks(5), AssembleSettings(), 10)
    written_before = len(worker.ledgers[0])
    (state,) = worker.agent._states.values()
    now_s = state.ledger.clock()
    state.ledger.clock = lambda: now_s + 6 * 3600 + 1
    worker.run(10)
    assert len(worker.ledgers[0]) == written_before + 1
    del worker.ledgers[0][:-1]
    worker.kill()


def test_a_ledger_whose_old_entries_were_deleted_is_noticed() -> None:
    """The lost ids are counted; the others are remembered."""
    worker = joined_by_worker(asks(30), AssembleSettings(), 2)
    del worker.ledgers[0][: len(worker.ledgers[0]) // 2]
    lost = next(each for each in entries(worker) if each.emitted)
    lost_number = lost.closings - 1
    worker.kill()
    (state,) = worker.agent._states.values()
    assert state.remembered == 24 - lost_number


@pytest.mark.heavy
def test_ledger_and_memory_are_bounded_over_hours() -> None:
    """After two hours at a trace a second, what a restore reads and keeps is that of the remembered minute."""
    worker = joined_by_worker(asks(2 * 3600), AssembleSettings(remember_s=60), 100)
    newest = entries(worker)[-1]
    needed = sum(record.offset >= newest.ledger_from for record in worker.ledgers[0])
    assert needed <= 4
    (state,) = worker.agent._states.values()
    assert state.remembered <= 67
    assert len(state.traces) <= 7
    assert len(state.traces._queue) <= 50
    assert len(state.ledger.pages) <= 4
    worker.kill()
    (again,) = worker.agent._states.values()
    assert again.remembered == state.remembered


@pytest.mark.heavy
@pytest.mark.parametrize("spans", [1, 40])
def test_many_short_traces_take_no_more_memory_than_the_limit(spans: int) -> None:
    """Short spans take more memory than their values do; a producer may open as many traces as it likes."""
    limit = 16 * 1024 * 1024
    traces = OpenTraces(AssembleSettings(max_held_bytes=limit))
    tracemalloc.start()
    try:
        for number in range(60_000 // spans):
            heads = [SpanHead(f"{number * spans + each:016x}", None, False, 0, 0) for each in range(spans)]
            traces.add(b"%016d" % number, number, 0, 0, b"%020d" % number, heads)
            while (closing := traces.next_closing(0)) is not None:
                traces.close(closing[0])
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert traces.held_bytes <= limit
    assert 0.3 * limit < taken < limit


def test_marks_alone_are_committed_once_a_second_of_the_clock() -> None:
    log = [mark_record(number, [number * 0.2]) for number in range(500)]
    worker = Worker([log], AssembleSettings())
    before = worker.commits
    worker.run(1)
    assert 95 <= worker.commits - before <= 101
    assert entries(worker)[-1].committed >= 495


def test_an_hour_of_clock_is_not_committed_by_wall_time() -> None:
    """Times of the ledger are those of the log."""
    worker = joined_by_worker(asks(30), AssembleSettings(), 10)
    assert entries(worker)[-1].clock_ms == START_MS + 29_000
