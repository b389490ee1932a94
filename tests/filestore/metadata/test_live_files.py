"""What is known of the live files of a snapshot: counts from the lists alone, and the highest sequence numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.metadata.manifests.manifest import merge_entries
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId, FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta, partition_stats
from lakelog.filestore.metadata.manifests.manifest_steps import ManifestStep, net_change
from lakelog.filestore.metadata.snapshots.live_state import NO_SEQUENCE, LiveFiles
from tests.support.files.data_files import plain_entry
from tests.support.tables.small_tables import make_table, rows_of

FILE_NUMBERS = st.integers(0, 11)
DELTAS = st.lists(st.lists(FILE_NUMBERS, max_size=6), max_size=10)
SEQUENCES = st.lists(st.integers(NO_SEQUENCE, 4), min_size=12, max_size=12)


def test_manifest_lists_say_how_many_files_are_live(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for batch in range(4):
        table.write(rows_of(batch))
    table.compact(full=True)
    table.write(rows_of(4))
    for number in range(1, 7):
        snapshot = table.snapshots.get(number)
        assert table.live_files.count(snapshot) == len(list(table.live_files.of(snapshot).entries())), number


@given(deltas=DELTAS, sequences=SEQUENCES)
def test_rows_of_a_bucket_are_numbered_after_the_highest_of_its_live_files(
    deltas: list[list[int]], sequences: list[int]
) -> None:
    live, model = LiveFiles(), set[int]()
    for delta in deltas:
        entries = []
        for number in delta:  # a file that is live is deleted, another one is added: also twice in one delta
            entries.append(entry_of(number, sequences[number], FileKind.DELETE if number in model else FileKind.ADD))
            model ^= {number}
        live = live.apply(entries)
        for bucket in range(3):
            highest = max((sequences[one] for one in model if one % 3 == bucket), default=NO_SEQUENCE)
            assert live.next_sequence(BucketId(bytes(12), bucket)) == highest + 1


def entry_of(number: int, sequence: int, kind: FileKind) -> ManifestEntry:
    """An entry of file `number`, which is in one of three buckets."""
    entry = plain_entry(f"data-{number}.parquet", kind, bucket=number % 3)
    return replace(entry, file=replace(entry.file, max_sequence_number=sequence))


LINES = st.lists(st.tuples(st.integers(0, 5), FILE_NUMBERS, st.booleans()), min_size=1, max_size=14)


@given(commits=LINES)
def test_a_step_leads_from_any_state_to_any_other(commits: list[tuple[int, int, bool]]) -> None:
    """Of any tree of commits, which add or delete a file and may join the manifests of their parent."""
    manifests: dict[str, list[ManifestEntry]] = {}
    states: list[list[str]] = [[]]
    for at, (parent, number, joins) in enumerate(commits):
        names = list(states[parent % len(states)])
        live = LiveFiles().apply(entry for name in names for entry in manifests[name])
        if joins and names:
            manifests[f"joined-{at}"] = merge_entries([entry for name in names[-3:] for entry in manifests[name]])
            names[-3:] = [f"joined-{at}"]
        kind = FileKind.DELETE if live.find(entry_of(number, at, FileKind.ADD)) else FileKind.ADD
        manifests[f"own-{at}"] = [entry_of(number, at, kind)]
        states.append([*names, f"own-{at}"])

    whole = [LiveFiles().apply(entry for name in names for entry in manifests[name]) for names in states]
    for earlier, before in zip(states, whole, strict=True):
        for later, after in zip(states, whole, strict=True):
            step = ManifestStep.between(*([meta_of(name, manifests[name]) for name in one] for one in (earlier, later)))
            parts = (
                [entry for one in part for entry in manifests[one.file_name]] for part in (step.added, step.dropped)
            )
            reached = before.apply(net_change(*parts))
            assert {entry.identifier for entry in reached.entries()} == {entry.identifier for entry in after.entries()}
            assert step.entry_count >= abs(len(list(before.entries())) - len(list(after.entries())))


def meta_of(name: str, entries: list[ManifestEntry]) -> ManifestFileMeta:
    """The entry of a manifest in its list."""
    added = sum(entry.kind is FileKind.ADD for entry in entries)
    return ManifestFileMeta(
        file_name=name,
        file_size_bytes=1,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=partition_stats((), set()),
        schema_id=0,
    )
