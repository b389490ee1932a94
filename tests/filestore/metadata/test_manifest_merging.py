"""Which manifests a commit joins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS
from lakelog.filestore.metadata.manifests.manifest_merging import pick_manifests
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta

NO_LIMIT = 1 << 60


def manifest(added: int, deleted: int = 0, size: int = 1) -> ManifestFileMeta:
    return ManifestFileMeta(
        file_name="m",
        file_size_bytes=size,
        num_added_files=added,
        num_deleted_files=deleted,
        partition_stats=EMPTY_STATS,
        schema_id=0,
    )


def pick(manifests: list[ManifestFileMeta], *, count_min: int = 5, full: int = NO_LIMIT) -> list[ManifestFileMeta]:
    return list(pick_manifests(manifests, count_min=count_min, full_size_bytes=full))


@given(counts=st.lists(st.integers(1, 50), max_size=40))
def test_what_is_joined_is_the_end_of_the_list(counts: list[int]) -> None:
    manifests = [manifest(count) for count in counts]
    picked = pick(manifests)
    assert not picked or len(picked) >= 5
    assert picked == manifests[len(manifests) - len(picked) :]


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=300))
def test_lists_stay_short_and_entries_are_seldom_rewritten(sizes: list[int]) -> None:
    held: list[ManifestFileMeta] = []
    rewritten = 0
    for size in sizes:
        held.append(manifest(size))
        picked = pick(held)
        if picked:
            entries = sum(part.num_added_files for part in picked)
            rewritten += entries
            held = [*held[: len(held) - len(picked)], manifest(entries)]
    total = sum(sizes)
    assert len(held) <= 5 + total.bit_length()
    assert rewritten <= total * total.bit_length()


def test_everything_is_joined_where_much_cancels_out() -> None:
    manifests = [manifest(1_000), *(manifest(2, 90) for _ in range(4))]
    assert pick(manifests) == manifests
    assert pick(manifests[:4]) == []


def test_everything_is_joined_when_deletes_weigh_too_much() -> None:
    manifests = [manifest(1_000), *(manifest(10, 1, size=5) for _ in range(4))]
    assert pick(manifests) == []
    assert pick(manifests, full=19) == manifests
