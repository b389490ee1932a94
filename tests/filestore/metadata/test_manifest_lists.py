"""The bytes of manifest lists: those of any Avro file, whatever list came before."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.formats.avro.avro import encode_container
from lakelog.filestore.formats.avro.avro_blocks import AvroBlocks
from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS
from lakelog.filestore.metadata.manifests.manifest_lists import KNOWN_LISTS, decode_list, encode_list
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta, manifest_record
from lakelog.filestore.metadata.manifests.manifest_schemas import LIST_SCHEMA

CODECS = ("zstandard", "deflate", "null")


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    KNOWN_LISTS.clear()
    yield
    KNOWN_LISTS.clear()


def meta(number: int, *, level: int | None = None) -> ManifestFileMeta:
    return ManifestFileMeta(
        file_name=f"manifest-{number}",
        file_size_bytes=100 + number,
        num_added_files=number,
        num_deleted_files=0,
        partition_stats=EMPTY_STATS,
        schema_id=0,
        max_level=level,
    )


METAS = [meta(number) for number in range(40)]
# A list begins as others do, or has other manifests in the middle, or equal ones that are other objects.
manifests = st.builds(
    lambda first, count, changed: [
        replace(one) if at in changed else one for at, one in enumerate(METAS[first : first + count])
    ],
    st.integers(0, 5),
    st.integers(0, 40),
    st.sets(st.integers(0, 40), max_size=3),
)


def records_by_fastavro(data: bytes) -> list[dict[str, object]]:
    return cast(list[dict[str, object]], list(fastavro.reader(io.BytesIO(data))))


def first_block(data: bytes) -> bytes:
    return next(AvroBlocks(data).packed()).packed


@given(lists=st.lists(manifests, min_size=1, max_size=6), codec=st.sampled_from(CODECS))
def test_a_list_holds_its_manifests_whatever_list_was_written_before(
    lists: list[list[ManifestFileMeta]], codec: str
) -> None:
    for one in lists:
        data = encode_list(one, table="t", codec=codec)
        assert records_by_fastavro(data) == [manifest_record(manifest) for manifest in one]


@given(lists=st.lists(manifests, min_size=1, max_size=6), codec=st.sampled_from(CODECS))
def test_a_list_is_read_the_same_whatever_list_was_read_before(lists: list[list[ManifestFileMeta]], codec: str) -> None:
    for one in lists:
        data = encode_container(LIST_SCHEMA, map(manifest_record, one), codec=codec)
        assert decode_list(data, path="list", table="t") == tuple(one)


def test_the_header_is_that_of_other_avro_writers() -> None:
    ours = encode_list(METAS, table="t", codec="zstandard")
    theirs = encode_container(LIST_SCHEMA, map(manifest_record, METAS), codec="zstandard")

    headers = [fastavro.reader(io.BytesIO(data)).metadata for data in (ours, theirs)]
    assert headers[0] == headers[1]


def test_a_long_list_has_blocks_of_a_limited_size() -> None:
    many = [meta(number) for number in range(5_000)]
    data = encode_list(many, table="t", codec="null")

    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert max(block.num_records for block in blocks) < 5_000
    assert sum(block.num_records for block in blocks) == 5_000
    assert decode_list(data, path="list", table="t") == tuple(many)


def test_manifests_that_two_lists_share_are_the_same_objects() -> None:
    first, second = (encode_container(LIST_SCHEMA, map(manifest_record, METAS[:count])) for count in (30, 40))
    before = decode_list(first, path="first", table="t")

    after = decode_list(second, path="second", table="t")
    assert all(one is other for one, other in zip(before, after, strict=False))


def test_a_record_that_changed_behind_shared_ones_is_read_as_it_is() -> None:
    changed = [*METAS[:20], meta(20, level=3), *METAS[21:]]
    for one in (METAS, changed, METAS):
        data = encode_container(LIST_SCHEMA, map(manifest_record, one), codec="null")
        assert decode_list(data, path="list", table="t") == tuple(one)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_list_that_claims_more_records_than_it_has_is_damaged(*, is_known: bool) -> None:
    data = encode_container(LIST_SCHEMA, map(manifest_record, METAS[:30]), codec="null")
    if is_known:
        decode_list(data, path="list", table="t")
    at = data.index(first_block(data))
    assert data[at - 3] == 2 * 30  # the count of the block, before its size in two bytes

    with pytest.raises(CorruptDataError, match="claim 31 records and have 30"):
        decode_list(data[: at - 3] + bytes([2 * 31]) + data[at - 2 :], path="list", table="t")


def test_a_list_that_is_cut_off_in_a_record_is_damaged() -> None:
    whole = encode_container(LIST_SCHEMA, map(manifest_record, METAS[:1]), codec="null")
    block = first_block(whole)
    cut = whole.replace(bytes([2, 2 * len(block)]) + block, bytes([2, 2 * (len(block) - 1)]) + block[:-1])
    assert cut != whole

    with pytest.raises(CorruptDataError, match="not a readable Avro file"):
        decode_list(cut, path="list", table="t")
