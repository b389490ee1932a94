"""A warehouse whose every text that others can choose drives a terminal, and the command line over all of it."""

from __future__ import annotations

import re
import shutil
import unicodedata
from pathlib import Path

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.metadata.origins.record import ForeignSource, UnknownSource
from tests.support.lineage.lineage_records import LINEAGE_ON, commit_job, files_of

# A hyperlink, a cleared screen, a C1 control, a title, marks of direction, markup of rich, a line of its own.
HOSTILE = "\x1b]8;;http://evil\x07[/][bold]\x1b[2J\x1b[8m\x9b31m\x1b]0;t\x1b\\\u202e\u2066\u200f\r\n\u2028lakelog: done"
MARKUP = "x[bold red][link=http:evil][x]"  # a name that tags, branches and consumers may have
COLUMN = f"c{HOSTILE}"
ODD = "db.odd"  # a copy with the tag of another engine, whose name is refused
_PLAIN_CONTROLS = {"\n"}
_OWN_STYLE = re.compile("\x1b\\[(?:(?:0|1|2|22|3[0-79])(?:;(?=[0-9])|(?=m)))+m")


def driving(text: str, *, own_styles: bool = False) -> set[str]:
    """The characters of a printed text that drive a terminal; with `own_styles` without the colours that rich draws."""
    if own_styles:
        text = _OWN_STYLE.sub("", text)
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return {one for one in text if unicodedata.category(one) in kinds} - _PLAIN_CONTROLS


def make_hostile_warehouse(folder: Path) -> Table:
    """A table whose columns, comments, partitions, cells, users, jobs, tags, branches and consumers are hostile."""
    catalog = Catalog(folder, options=LINEAGE_ON)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string()), (COLUMN, pa.string())])
    table = catalog.create_table(
        "db.t",
        schema=schema,
        primary_keys=["id", "p"],
        partition_keys=["p"],
        options={"write-only": "true", "bucket": "1"},
        comment=HOSTILE,
    )
    table.write(_rows(schema, 1, HOSTILE))
    table.tags.create(MARKUP)
    table.branches.create(MARKUP, tag=MARKUP)
    table.write(_rows(schema, 1, f"{HOSTILE} again"))
    files = files_of(table)
    append_commit(files, user=HOSTILE, identifier=3, digest=None, entries=[])
    commit_job(files, 4, ForeignSource(format="kafka", name=HOSTILE), UnknownSource(why=HOSTILE), job=f"job {HOSTILE}")
    table.consumers.reset(MARKUP, 1)
    place = Path(table.path)
    odd = place.with_name(ODD.removeprefix("db."))
    shutil.copytree(place, odd)
    (odd / "tag" / f"tag-{MARKUP}").rename(odd / "tag" / f"tag-{HOSTILE.replace('/', '')}")
    return table


def _rows(schema: pa.Schema, number: int, cell: str) -> pa.Table:
    return pa.table({"id": [number], "p": [HOSTILE], COLUMN: [cell]}, schema=schema)
