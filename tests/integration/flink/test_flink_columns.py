"""Computed columns and watermarks of released Flink: changes by lakelog leave what Flink's own ALTER TABLE leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from lakelog.catalog import (
    AddColumn,
    Catalog,
    DropColumn,
    InvalidRequestError,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    UpdateColumnPosition,
)
from tests.support.servers.flink import Flink, running_flink

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]

CREATE = """
CREATE TABLE {name} (
    id BIGINT, twice AS b * 2, a INT, b INT, `at` TIMESTAMP(3), last_one AS CHAR_LENGTH('a') + id,
    WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
)
"""


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    with running_flink(tmp_path_factory.mktemp("flink"), is_batch=True) as started:
        yield started


@pytest.mark.parametrize(
    ("statement", "changes"),
    [
        ("DROP a", [DropColumn("a")]),
        ("ADD n INT", [AddColumn("n", "INT")]),
        ("ADD n INT FIRST", [AddColumn("n", "INT", position=Position(Place.FIRST))]),
        ("ADD n INT AFTER id", [AddColumn("n", "INT", position=Position(Place.AFTER, "id"))]),
        ("ADD n INT AFTER `at`", [AddColumn("n", "INT", position=Position(Place.AFTER, "at"))]),
        ("RENAME a TO z", [RenameColumn("a", "z")]),
        ("MODIFY a INT FIRST", [UpdateColumnPosition("a", Position(Place.FIRST))]),
        ("DROP b", [DropColumn("b")]),
        ("RENAME b TO z", [RenameColumn("b", "z")]),
        ("DROP `at`", [DropColumn("at")]),
        ("RENAME `at` TO z", [RenameColumn("at", "z")]),
        ("ADD twice INT", [AddColumn("twice", "INT")]),
        ("RENAME a TO twice", [RenameColumn("a", "twice")]),
    ],
)
def test_a_change_of_columns_leaves_what_flink_leaves(
    flink: Flink, tmp_path: Path, statement: str, changes: Sequence[SchemaChange]
) -> None:
    options = f"'type' = 'paimon', 'warehouse' = 'file:{tmp_path}', 'cache-enabled' = 'false'"
    flink.execute(f"CREATE CATALOG lake WITH ({options})")
    try:
        flink.execute("CREATE DATABASE lake.d")
        for name in ("theirs", "ours"):
            flink.execute(CREATE.format(name=f"lake.d.{name}"))
            flink.execute(f"INSERT INTO lake.d.{name} VALUES (7, 1, 21, TIMESTAMP '2026-01-02 03:04:05')")
        table = Catalog(tmp_path).load_table("d.ours")
        try:
            flink.execute(f"ALTER TABLE lake.d.theirs {statement}")
        except Py4JJavaError:
            with pytest.raises(InvalidRequestError, match="of Flink"):
                table.alter(*changes)
        else:
            table.alter(*changes)
        for question in ("DESCRIBE lake.d.{}", "SELECT * FROM lake.d.{}"):
            assert flink.run(question.format("ours")) == flink.run(question.format("theirs"))
    finally:
        flink.execute("DROP CATALOG lake")
