"""What a commit records of where its rows come from."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.origins.record import (
    TEXT_MAX,
    BatchLineage,
    ForeignSource,
    LogRange,
    ReadMode,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
    batches_of,
)
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey

names = st.text(min_size=1, max_size=12)
texts = st.none() | names
numbers = st.integers(min_value=0, max_value=(1 << 63) - 1)
versions = st.none() | st.builds(TableVersion, snapshot_id=numbers, commit=texts)
offsets = st.dictionaries(st.integers(min_value=0, max_value=9999), numbers, max_size=3)
sources: st.SearchStrategy[Source] = st.one_of(
    st.builds(
        TableSource,
        table=names,
        uuid=names,
        path=texts,
        branch=texts,
        mode=st.sampled_from(ReadMode),
        start=versions,
        end=versions,
        is_exact=st.booleans(),
        log=st.none() | st.builds(LogRange, topic_id=names, start=offsets, end=offsets),
        why=texts,
    ),
    st.builds(ForeignSource, format=names, name=texts, start=texts, end=texts),
    st.builds(UnknownSource, why=names),
)
lineages = st.builds(
    BatchLineage,
    job=texts,
    query_id=texts,
    run_id=texts,
    batch_id=st.none() | numbers,
    operation=texts,
    sources=st.lists(sources, max_size=3).map(tuple),
)


def _snapshot(text: str | None) -> Snapshot:
    return Snapshot(
        id=7,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=0,
        total_record_count=0,
        delta_record_count=0,
        properties={} if text is None else {PropertyKey.LINEAGE: text},
    )


@given(lineages)
def test_a_record_is_read_as_it_was_written(lineage: BatchLineage) -> None:
    entry = {"user": "u", "identifier": 3, **lineage.to_json()}

    (found,) = batches_of(_snapshot(json.dumps({"batches": [entry]})))

    assert (found.user, found.identifier, found.lineage) == ("u", 3, lineage)


def test_a_snapshot_of_another_engine_records_no_batch() -> None:
    assert batches_of(_snapshot(None)) == ()


def test_a_source_of_a_newer_version_is_unknown_and_says_so() -> None:
    entry = {"user": "u", "identifier": 3, "sources": [{"kind": "dream"}]}

    (found,) = batches_of(_snapshot(json.dumps({"batches": [entry]})))

    assert found.lineage.sources == (
        UnknownSource(why="a source of kind dream, which this version of lakelog does not know"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"batches": {}}',
        '{"batches": [{"user": "u"}]}',
        '{"batches": [{"user": "u", "identifier": 1, "sources": [{"kind": "table", "table": "t"}]}]}',
        '{"batches": [{"user": "u", "identifier": 1, "sources": [1]}]}',
    ],
)
def test_what_is_no_record_is_an_error_that_names_the_snapshot(text: str) -> None:
    with pytest.raises(CorruptDataError, match="snapshot 7"):
        batches_of(_snapshot(text))


def test_offsets_of_a_foreign_source_are_cut_to_a_size_that_a_snapshot_bears() -> None:
    written = ForeignSource(format="files", end="x" * (TEXT_MAX * 10)).to_json()

    assert len(str(written["to"])) <= TEXT_MAX + len("...")
