"""Strategies for data files and manifest entries, and plain ones to start from."""

from __future__ import annotations

from hypothesis import strategies as st

from lakelog.common.types import parse_type
from lakelog.filestore.encoding.binary_row import serialize_row
from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS, DataFileMeta, FileSource, SimpleStats
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry

longs = st.integers(-(1 << 63), (1 << 63) - 1)
rows = st.binary(max_size=30)
stats = st.just(EMPTY_STATS) | st.builds(
    SimpleStats,
    min_values=rows,
    max_values=rows,
    null_counts=st.none() | st.lists(st.none() | longs, max_size=3).map(tuple),
)
file_names = st.from_regex(r"[\w .=%~+-]{3,12}", fullmatch=True)
names = st.none() | st.lists(st.text(max_size=5), max_size=3).map(tuple)
data_files = st.builds(
    DataFileMeta,
    file_name=file_names,
    file_size_bytes=longs,
    row_count=longs,
    min_key=rows,
    max_key=rows,
    key_stats=stats,
    value_stats=stats,
    min_sequence_number=longs,
    max_sequence_number=longs,
    schema_id=longs,
    level=st.integers(0, 5),
    extra_files=st.lists(file_names, max_size=2).map(tuple),
    creation_time_millis=st.none() | st.integers(0, 253_402_300_799_999),
    delete_row_count=st.none() | longs,
    embedded_file_index=st.none() | rows,
    file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=names,
    external_path=st.none() | st.text(),
    first_row_id=st.none() | longs,
    write_cols=names,
)
manifest_entries = st.builds(
    ManifestEntry,
    kind=st.sampled_from(FileKind),
    partition=rows,
    bucket=st.integers(-2, 1 << 20),
    total_buckets=st.integers(-2, 1 << 20),
    file=data_files,
)


def key_of(number: int) -> bytes:
    """The serialized key of one INT column."""
    return serialize_row([parse_type("INT")], [number])


def plain_file(name: str, *, level: int = 0, first: int = 1, last: int = 6) -> DataFileMeta:
    """A data file with one INT key, as a writer makes it."""
    least, most = key_of(first), key_of(last)
    return DataFileMeta(
        file_name=name,
        file_size_bytes=2_304,
        row_count=last - first + 1,
        min_key=least,
        max_key=most,
        key_stats=SimpleStats(min_values=least, max_values=most, null_counts=(0,)),
        value_stats=EMPTY_STATS,
        min_sequence_number=0,
        max_sequence_number=4,
        schema_id=0,
        level=level,
        creation_time_millis=1_795_206_063_765,
        delete_row_count=0,
        file_source=FileSource.APPEND,
        value_stats_cols=(),
    )


def plain_entry(
    name: str, kind: FileKind = FileKind.ADD, *, bucket: int = 0, level: int = 0, partition: bytes = bytes(12)
) -> ManifestEntry:
    """An entry for `plain_file`."""
    return ManifestEntry(
        kind=kind, partition=partition, bucket=bucket, total_buckets=2, file=plain_file(name, level=level)
    )
