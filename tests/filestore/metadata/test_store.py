"""A table with the schema of its files: it is its own, whatever the schema that users see says."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, MERGE_ENGINE
from lakelog.filestore.schema.merged_schema import schema_with_rules
from lakelog.filestore.schema.new_schema import build_schema

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
LOG = {"log.system": "kafka"}
ALL = {"log.changelog-mode": "all"}
KINDS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "value count": ([], {"write-mode": "change-log"}),
    "append-only": ([], {}),
    "upsert": (["id"], {}),
    "sum": (["id"], {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", **ALL}),
    "first-row": (["id"], {"merge-engine": "first-row"}),
    "sequence": (["id"], {"sequence.field": "v"}),
    "changelog at write": (["id"], {"changelog-producer": "lookup", **ALL}),
    "changelog by compaction, without old values": (["id"], {"changelog-producer": "lookup"}),
}


def store_of(kind: str, folder: Path) -> TableStore:
    keys, options = KINDS[kind]
    logged = {key: text for key, text in options.items() if key.startswith("log.")}
    plain = {key: text for key, text in options.items() if key not in logged}
    built = build_schema(SCHEMA, primary_keys=keys, options={"bucket": "1", **plain})
    schema = replace(built, options={**built.options, **LOG, **logged})
    return TableStore(path=str(folder / "t"), file_io=LocalFileIO(), schema=schema)


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_table_of_a_stored_table_is_the_same(tmp_path: Path, kind: str) -> None:
    stored = store_of(kind, tmp_path).stored
    assert stored.stored.schema == stored.schema
    assert pickle.loads(pickle.dumps(stored)).stored.schema == stored.schema


def test_the_files_of_a_value_count_table_with_a_log_are_summed_by_any_stored_table(tmp_path: Path) -> None:
    stored = store_of("value count", tmp_path).stored
    assert MERGE_ENGINE.of(stored.stored.schema.options) == "aggregation"
    assert not stored.schema.is_merged_at_write


def test_a_changelog_by_compaction_stays_one_in_any_stored_table(tmp_path: Path) -> None:
    """Of a table that was made before batches wrote the changelog: `lookup` is in its schema file."""
    plain = store_of("changelog at write", tmp_path)
    opened = TableStore(path=plain.path, file_io=plain.file_io, schema=schema_with_rules(plain.schema, path="schema-0"))
    assert CHANGELOG_PRODUCER.of(opened.stored.schema.options) == "lookup"
    assert CHANGELOG_PRODUCER.of(opened.stored.stored.schema.options) == "lookup"
