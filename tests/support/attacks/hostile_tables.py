"""Tables whose folders were made to reach outside, and a folder outside that must stay as it is."""

from __future__ import annotations

import atexit
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any  # Any: JSON and Avro are untyped

import fastavro

from lakelog.common.errors import LakelogError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, expire_snapshots, remove_orphan_files, reset_consumer
from tests.support.attacks.damage import make_table, rows_of
from tests.support.tables.small_tables import in_new_process

DAY = 24 * 3_600_000
EVERYTHING = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)
Record = dict[str, Any]
Change = Callable[[Record], object]
Action = Callable[[FileStoreTable], object]


@dataclass(frozen=True, slots=True)
class World:
    """A table, and beside its warehouse the folder `outside` with files of another owner."""

    table: str
    outside: Path

    def content(self) -> Mapping[str, bytes | None]:
        """Everything outside: the bytes of files; None for folders."""
        found = {str(path): path.read_bytes() if path.is_file() else None for path in self.outside.rglob("*")}
        return {"": None} | found if self.outside.is_dir() else found

    def run(self, *names: str) -> dict[str, Exception]:
        """Do these with the table, or all there is; gives the errors. An error of another kind than ours is raised."""
        before = self.content()
        errors: dict[str, Exception] = {}
        for name in names or ACTIONS:
            try:
                ACTIONS[name](in_new_process(self.table))
            except LakelogError as error:
                errors[name] = error
            assert self.content() == before, f"{name} has changed what is outside"
        return errors


def _read(table: FileStoreTable) -> None:
    found = table.to_arrow(columns=["name"])["name"].to_pylist()
    assert "outside" not in found, "rows were read from outside"


def _changes(table: FileStoreTable) -> None:
    for batch in changes(table, after=0):
        assert "outside" not in batch.column("name").to_pylist(), "changes were read from outside"


def _write(table: FileStoreTable) -> None:
    table.write(rows_of(7, table.schema.field_names))


def _tagged(table: FileStoreTable) -> None:
    for tag in table.snapshots.tags():
        table.to_arrow(tag=tag)


ACTIONS: Mapping[str, Action] = {
    "read": _read,
    "changes": _changes,
    "tags": _tagged,
    "consumers": lambda table: ConsumerManager(table.file_io, table.paths).readable(),
    "look for orphans": lambda table: remove_orphan_files(table, older_than_millis=-DAY, allow_young=True),
    "write": _write,
    "consumer": lambda table: reset_consumer(table, "c", table.snapshots.latest_id() or 1),
    "compact": lambda table: table.compact(full=True),
    "orphans": lambda table: remove_orphan_files(table, older_than_millis=-DAY, dry_run=False, allow_young=True),
    "expire": lambda table: expire_snapshots(table, retention=EVERYTHING),
    "orphans again": lambda table: remove_orphan_files(table, older_than_millis=-DAY, dry_run=False, allow_young=True),
    "overwrite": lambda table: table.write(rows_of(8, table.schema.field_names), mode="overwrite"),
}


def make_world(folder: Path, *, has_key: bool) -> World:
    """A table with every kind of file: with a key it is compacted, without one it has deletion vectors."""
    shutil.copytree(_template(has_key), folder, dirs_exist_ok=True)
    return World(str(folder / "lake" / "db.db" / "t"), folder / "outside")


@cache
def _template(has_key: bool) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lakelog-hostile-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    table = make_table(folder / "lake" / "db.db", "parquet", has_key=has_key)
    table.write(rows_of(3, table.schema.field_names))
    if has_key:
        table.compact(full=True)
        table.write(rows_of(4, table.schema.field_names))
    outside = folder / "outside"
    (outside / "empty").mkdir(parents=True)
    other = make_table(folder / "other", "parquet", has_key=has_key)
    rows = rows_of(5, other.schema.field_names)
    other.write(rows.set_column(1, "name", [["outside"] * rows.num_rows]))
    newest = max(Path(other.path).rglob("data-*"), key=lambda path: path.stat().st_mtime_ns)
    shutil.copy(newest, outside / "data.parquet")
    for name in ("manifest-0", "stat-0", "index-0", "data-0.parquet", "changelog-0.parquet", "snapshot-1", "note"):
        (outside / name).write_bytes(b"somebody else's")
    shutil.rmtree(folder / "other")
    for path in [outside, *outside.rglob("*")]:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def rewrite(
    table: str, *, entry: Change | None = None, meta: Change | None = None, index: Change | None = None,
    snapshot: Change | None = None,
) -> None:  # fmt: skip
    """Write all metadata anew, as another program could: manifest entries, list entries, index records, snapshots.

    The new names of manifests hold no digest, and the snapshots none either.
    """
    folder = Path(table) / "manifest"
    new: dict[str, tuple[str, int]] = {}
    kinds = {"index-manifest-": index, "manifest-list-": None, "manifest-": entry}
    given = sorted(path.name for path in folder.iterdir())
    lists = [name for name in given if name.startswith("manifest-list-")]
    for name in [name for name in given if name not in lists]:
        change = next(kinds[start] for start in kinds if name.startswith(start))
        new[name] = _rewritten(folder, name, change)
    for name in lists:
        new[name] = _rewritten(folder, name, lambda record: _renamed(record, new, meta))
    for path in [*Path(table).glob("snapshot/snapshot-*"), *Path(table).glob("tag/tag-*")]:
        fields = json.loads(path.read_bytes())
        fields.pop("writerVersion", None)
        fields.get("properties", {}).pop("lakelog.digest", None)
        for key in ("baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest"):
            if fields.get(key) in new:
                fields[key], size = new[fields[key]]
                if f"{key}Size" in fields:
                    fields[f"{key}Size"] = size
        if snapshot is not None:
            snapshot(fields)
        path.write_text(json.dumps(fields))


def _renamed(record: Record, new: Mapping[str, tuple[str, int]], change: Change | None) -> None:
    record["_FILE_NAME"], record["_FILE_SIZE"] = new[record["_FILE_NAME"]]
    if change is not None:
        change(record)


def _rewritten(folder: Path, name: str, change: Change | None) -> tuple[str, int]:
    reader = fastavro.reader(io.BytesIO((folder / name).read_bytes()))
    schema = reader.writer_schema
    assert schema is not None
    records: list[Record] = list(reader)  # type: ignore[arg-type]  # our records are objects
    for record in records:
        if change is not None:
            change(record)
    if any("_EXTERNAL_PATH" in record for record in records):  # in index manifests other engines have it
        _add_field(schema, {"name": "_EXTERNAL_PATH", "type": ["null", "string"], "default": None})
    made = io.BytesIO()
    fastavro.writer(made, schema, records, codec="null")
    renamed = name.partition("-blake2b-")[0]
    (folder / renamed).write_bytes(made.getvalue())
    if renamed != name:
        (folder / name).unlink()
    return renamed, len(made.getvalue())


def _add_field(schema: Any, field: Record) -> None:
    if field["name"] not in [one["name"] for one in schema["fields"]]:
        schema["fields"].append(field)
