"""What errors quote of what others wrote: enough to find it, and never all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from lakelog.common.errors import MESSAGE_MAX, CorruptDataError, InvalidRequestError, LakelogError, UnknownOutcomeError
from lakelog.common.quoting import cause, listed, shown
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.options.files import FILE_FORMAT, TARGET_FILE_SIZE
from lakelog.filestore.predicate.binding import resolve
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.validate import validate_rows
from lakelog.streams.reading.offsets import OFFSET_MARK, TableMark, offset_from_json

LONG = "x" * 5_000
QUOTED_MAX = 1_900
WIDE = build_schema(pa.schema([pa.field(f"column_{number}", pa.int32()) for number in range(3_000)]))
MARK = TableMark(uuid="u-1", name="db.t")


def _snapshot(fields: Mapping[str, object]) -> object:
    plain: dict[str, object] = {
        "version": 3,
        "id": 1,
        "schemaId": 0,
        "baseManifestList": "a",
        "deltaManifestList": "b",
        "timeMillis": 1,
    }
    plain |= {"commitUser": "u", "commitIdentifier": 1, "totalRecordCount": 1, "deltaRecordCount": 1}
    return Snapshot.from_json(json.dumps({**plain, "commitKind": "APPEND", **fields}), path="snapshot-1")


def _schema(fields: Mapping[str, object]) -> object:
    return TableSchema.from_json(json.dumps(json.loads(WIDE.to_json()) | fields), path="schema-0")


CASES: Mapping[str, Callable[[], object]] = {
    "kind of a snapshot": lambda: _snapshot({"commitKind": LONG}),
    "digest of a snapshot": lambda: _snapshot({"writerVersion": "lakelog", "properties": {"lakelog.digest": LONG}}),
    "file of a snapshot": lambda: _snapshot({"baseManifestList": f"../{LONG}"}),
    "digest of a schema": lambda: _schema({"lakelogDigest": LONG}),
    "key of a schema": lambda: _schema({"lakelogDigest": None, "primaryKeys": ["nope"]}),
    "type of a schema": lambda: _schema({"lakelogDigest": None, "fields": [{"id": 0, "name": "a", "type": LONG}]}),
    "version of an offset": lambda: offset_from_json({OFFSET_MARK: [1] * 5_000}, MARK),
    "bucket of an offset": lambda: offset_from_json({OFFSET_MARK: 1, "log": {LONG: 1}, "counts": {}}, MARK),
    "table of an offset": lambda: offset_from_json({"table": LONG, "name": LONG}, MARK),
    "column of a filter": lambda: resolve("nope", WIDE.fields),
    "columns of rows": lambda: validate_rows(WIDE, pa.table({"a": [1]}), table_name="t"),
    "value of an option": lambda: FILE_FORMAT.of({FILE_FORMAT.key: LONG}),
    "number of an option": lambda: TARGET_FILE_SIZE.of({TARGET_FILE_SIZE.key: LONG}),
    "keys of a new table": lambda: build_schema(WIDE.fields, primary_keys=[LONG[:5]]),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_quotes_a_part_of_what_is_large(name: str) -> None:
    with pytest.raises(LakelogError) as caught:
        CASES[name]()
    assert len(str(caught.value)) < QUOTED_MAX


def test_a_list_of_names_says_how_many_there_are() -> None:
    assert listed([]) == ""
    assert listed(["a", "b"]) == "a, b"
    assert listed(range(50), names_max=3) == "0, 1, 2, ... (50 in all)"
    assert len(listed([LONG] * 5_000)) < QUOTED_MAX


def test_a_value_and_a_cause_are_cut() -> None:
    assert shown("a") == "'a'"
    assert (shown([1] * 9), shown([1]), shown([])) == ("a list of 9 items", "a list of 1 item", "an empty list")
    assert (shown({"a": 1}), shown({})) == ("an object of 1 member", "an empty object")
    assert len(shown(LONG)) < 100
    assert cause(KeyError("a")) == "KeyError('a')"
    assert len(cause(ValueError(LONG))) < 600


@pytest.mark.parametrize("kind", [CorruptDataError, InvalidRequestError, UnknownOutcomeError])
def test_no_error_is_longer_than_a_page(kind: type[LakelogError]) -> None:
    """The beginning names the thing, the end says the way out."""
    text = str(kind(f"file x: {LONG * 1_000}; restore it"))
    assert len(text) < MESSAGE_MAX + 100
    assert text.startswith("file x: ")
    assert text.endswith("; restore it")
    assert str(kind("short")) == "short"
