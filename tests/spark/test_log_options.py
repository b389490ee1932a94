"""Options of reads of the log: their values, and which of them go together."""

from __future__ import annotations

import pytest

from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.logstore.options import LogScan
from lakelog.spark.options import ReadOptions
from lakelog.spark.read_ways import check_batch
from lakelog.streams.options.log_offsets import Edge, GivenOffsets, parse_offsets
from lakelog.streams.options.log_options import (
    METADATA_COLUMNS,
    STARTING_OFFSETS,
    MetadataColumn,
    check_stream,
    parse_log_reading,
)
from lakelog.streams.options.shown_state import ShownState

NOTHING = ShownState()
AT_SNAPSHOT = ShownState(snapshot_id=3)
AT_TIME = ShownState(timestamp_millis=5)
OFFSETS = '{"0": 1}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", GivenOffsets(all_buckets=Edge.EARLIEST)),
        (" Latest ", GivenOffsets(all_buckets=Edge.LATEST)),
        ('{"0": 12, "1": -2, "2": -1}', GivenOffsets(of_bucket={0: 12, 1: Edge.EARLIEST, 2: Edge.LATEST})),
        ('{"lake.db.t": {"0": 12}}', GivenOffsets(of_bucket={0: 12}, topic="lake.db.t")),
    ],
)
def test_offsets_are_given_as_for_sparks_kafka_source(text: str, found: GivenOffsets) -> None:
    assert parse_offsets(text) == found


@pytest.mark.parametrize(
    "text", ["", "newest", "[1]", '{"0": -3}', '{"0": 1.5}', '{"0": "1"}', '{"-1": 1}', '{"a": 1}', '{"0": 1, "0": 2']
)
def test_other_offsets_are_refused_by_the_name_of_the_option(text: str) -> None:
    with pytest.raises(OptionError, match="'startingOffsets' has the value"):
        STARTING_OFFSETS.of({"startingOffsets": text})


def test_every_bucket_of_the_table_has_an_offset_and_no_other() -> None:
    given = parse_offsets('{"0": 12, "1": -2}')

    found = given.resolved("startingOffsets", topic="t", earliest={0: 3, 1: 4}, latest={0: 20, 1: 30})
    assert found == {0: 12, 1: 4}
    for buckets in ({0: 0}, {0: 0, 1: 0, 2: 0}):
        with pytest.raises(InvalidRequestError, match=r"names the buckets 0, 1, the table has 0(, 1, 2)?:"):
            given.resolved("startingOffsets", topic="t", earliest=buckets, latest=buckets)


def test_the_topic_that_offsets_name_is_the_tables() -> None:
    given = parse_offsets('{"u": {"0": 1}}')

    with pytest.raises(InvalidRequestError, match="names the topic 'u', the table has 't'"):
        given.resolved("endingOffsets", topic="t", earliest={0: 0}, latest={0: 9})


def test_metadata_columns_are_named_or_all() -> None:
    assert METADATA_COLUMNS.of({"metadata-columns": "offset, batch_id"}) == (
        MetadataColumn.OFFSET,
        MetadataColumn.BATCH_ID,
    )
    assert METADATA_COLUMNS.of({"metadata-columns": "all"}) == tuple(MetadataColumn)
    with pytest.raises(OptionError, match="names of bucket, offset, timestamp"):
        METADATA_COLUMNS.of({"metadata-columns": "partition"})


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, NOTHING),
        ({}, AT_SNAPSHOT),
        ({}, AT_TIME),
        ({"log.scan": "full"}, AT_SNAPSHOT),
        ({"log.scan": "latest"}, NOTHING),
        ({"log.scan": "from-snapshot"}, AT_SNAPSHOT),
        ({"log.scan": "from-timestamp"}, AT_TIME),
        ({"log.scan": "from-offsets", "startingOffsets": OFFSETS}, NOTHING),
        ({"startingOffsets": "latest"}, NOTHING),
    ],
)
def test_a_stream_takes_the_start_that_its_mode_needs(given: dict[str, str], state: ShownState) -> None:
    check_stream(parse_log_reading(given, {}), state, table_name="db.t", has_log=True)


@pytest.mark.parametrize(
    ("given", "state", "message"),
    [
        ({"log.scan": "from-snapshot"}, NOTHING, "log.scan=from-snapshot needs snapshot_id"),
        ({"log.scan": "from-timestamp"}, NOTHING, "log.scan=from-timestamp needs timestamp or log.scan.timestamp-mill"),
        ({"log.scan": "from-offsets"}, NOTHING, "log.scan=from-offsets needs startingOffsets"),
        ({"log.scan": "latest"}, AT_SNAPSHOT, "snapshot_id does not go with log.scan=latest: .*log.scan=from-snapshot"),
        ({"log.scan": "latest"}, AT_TIME, "timestamp does not go with log.scan=latest: .*log.scan=from-timestamp"),
        ({"log.scan": "from-snapshot"}, AT_TIME, "log.scan=from-snapshot needs snapshot_id"),
        ({"log.scan": "full", "startingOffsets": OFFSETS}, NOTHING, "startingOffsets does not go with log.scan=full"),
        ({"startingOffsets": OFFSETS}, AT_SNAPSHOT, "snapshot_id does not go with log.scan=from-offsets"),
        ({"endingOffsets": OFFSETS}, NOTHING, "endingOffsets is an option of batch reads"),
    ],
)
def test_options_that_contradict_each_other_are_refused_in_a_stream(
    given: dict[str, str], state: ShownState, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        check_stream(parse_log_reading(given, {}), state, table_name="db.t", has_log=True)


def asked(given: dict[str, str], state: ShownState) -> ReadOptions:
    return ReadOptions(
        columns=None,
        where=None,
        has_row_kind=False,
        max_rows=None,
        max_bytes=None,
        state=state,
        log=parse_log_reading(given, {}),
        given=frozenset(given),
    )


@pytest.mark.parametrize("given", [{"startingOffsets": OFFSETS}, {"metadata-columns": "all"}])
def test_options_of_a_log_are_refused_where_there_is_none(given: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError, match=r"is about the log, and table db\.t has none"):
        check_stream(parse_log_reading(given, {}), NOTHING, table_name="db.t", has_log=False)
    with pytest.raises(InvalidRequestError):
        check_batch(asked(given, NOTHING), table_name="db.t", has_log=False)


@pytest.mark.parametrize(
    ("given", "state", "message"),
    [
        ({"log.scan": "latest", "endingOffsets": OFFSETS}, NOTHING, "log.scan=latest is where a stream starts"),
        ({"log.scan": "from-snapshot"}, NOTHING, "needs snapshot_id"),
        ({"endingOffsets": OFFSETS}, AT_SNAPSHOT, "snapshot_id does not go with log.scan=from-offsets"),
        ({"startingOffsets": "latest"}, NOTHING, "'startingOffsets' of a batch read cannot be latest"),
        ({"endingOffsets": '{"0": -2}'}, NOTHING, "'endingOffsets' of a batch read cannot be earliest"),
        ({"endingOffsets": OFFSETS}, ShownState(tag="t"), "a tag keeps a snapshot's files"),
        ({"metadata-columns": "offset"}, NOTHING, "this batch reads files"),
        ({"stream.align": "snapshot"}, NOTHING, "stream.align is an option of streams"),
    ],
)
def test_options_that_contradict_each_other_are_refused_in_a_batch(
    given: dict[str, str], state: ShownState, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        check_batch(asked(given, state), table_name="db.t", has_log=True)


def test_a_batch_reads_files_unless_it_names_a_part_of_the_log() -> None:
    of_table = {"log.scan": "from-timestamp", "log.scan.timestamp-mills": "7"}
    for given, reads_log in (
        ({}, False),
        ({"log.scan": "full"}, False),
        ({"endingOffsets": OFFSETS}, True),
        ({"startingOffsets": OFFSETS}, True),
        ({"log.scan": "from-snapshot"}, True),
    ):
        assert parse_log_reading(given, of_table).reads_batch is reads_log


def test_a_table_says_where_its_streams_start_and_a_read_may_say_otherwise() -> None:
    of_table = {"log.scan": "from-timestamp", "log.scan.timestamp-mills": "7"}

    found = parse_log_reading({}, of_table)
    assert (found.scan, found.table_millis) == (LogScan.FROM_TIMESTAMP, 7)
    check_stream(found, NOTHING, table_name="db.t", has_log=True)
    assert parse_log_reading({"log.scan": "latest"}, of_table).scan is LogScan.LATEST
    assert parse_log_reading({"startingOffsets": OFFSETS}, of_table).scan is LogScan.FROM_OFFSETS
