"""What a batch of several parts records of what it was made from."""

from lakelog.protocol.state.batch_lineage import of_parts

STREAM = {"kind": "table", "table": "db.a", "mode": "stream", "to": {"snapshot": 2}}
BEFORE = {"kind": "table", "table": "db.side", "mode": "batch", "to": {"snapshot": 5}}
AFTER = {"kind": "table", "table": "db.side", "mode": "batch", "to": {"snapshot": 6}}


def test_parts_that_were_planned_at_different_times_name_all_that_they_read() -> None:
    again = {"job": "j", "run": "2", "sources": [STREAM, AFTER]}
    parts = [{"job": "j", "run": "1", "sources": [STREAM, BEFORE]}, again]

    assert of_parts(again, parts) == {"job": "j", "run": "2", "sources": [STREAM, BEFORE, AFTER]}


def test_parts_in_the_log_say_what_was_read_not_the_plan_that_found_them() -> None:
    planned = {"run": "2", "sources": [STREAM, AFTER]}

    assert of_parts(planned, [{"run": "1", "sources": [STREAM, BEFORE]}]) == {"run": "2", "sources": [STREAM, BEFORE]}


def test_a_batch_without_parts_names_what_its_plan_reads() -> None:
    planned = {"run": "2", "sources": [STREAM, AFTER]}

    assert of_parts(planned, []) == planned


def test_a_batch_whose_parts_others_took_in_names_the_ranges_of_its_streams_alone() -> None:
    planned = {"run": "2", "sources": [STREAM, AFTER]}

    assert of_parts(planned, [], has_others=True) == {"run": "2", "sources": [STREAM]}
    assert of_parts(planned, [planned], has_others=True) == planned
