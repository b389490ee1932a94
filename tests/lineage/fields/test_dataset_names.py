"""The names of datasets: those of OpenLineage for what is no table of ours, without secrets."""

from __future__ import annotations

import pytest

from lakelog.lineage.columns.dataset_names import (
    dataset_of_jdbc,
    dataset_of_path,
    dataset_of_table,
    dataset_of_topic,
)


@pytest.mark.parametrize(
    ("name", "branch", "expected"),
    [
        ("db.t", None, ("db", "t")),
        ("db.t", "b", ("db", "t$branch_b")),
        ("db.t", "main", ("db", "t")),
        ("/lake/t", None, ("default", "/lake/t")),
        ("/lake/x.db/t", "b", ("default", "/lake/x.db/t$branch_b")),
        ("t", None, ("default", "t")),
        ("db.t$branch_b", None, ("db", "t$branch_b")),
        ("db.t$branch_v1.0", None, ("db", "t$branch_v1.0")),
        ("/lake/t$branch_v1.0", None, ("default", "/lake/t$branch_v1.0")),
    ],
)
def test_a_table_is_in_the_namespace_of_its_database(name: str, branch: str | None, expected: tuple[str, str]) -> None:
    assert dataset_of_table(name, branch) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/in", ("file", "/data/in")),
        ("file:/data/in", ("file", "/data/in")),
        ("file:///data/in", ("file", "/data/in")),
        ("s3://bucket/a/b", ("s3://bucket", "a/b")),
        ("s3a://key:secret@bucket/a", ("s3a://bucket", "a")),
        ("hdfs://host:8020/a", ("hdfs://host:8020", "/a")),
    ],
)
def test_a_path_is_named_by_its_file_system(path: str, expected: tuple[str, str]) -> None:
    assert dataset_of_path(path) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://host:5432/shop?user=a&password=b", ("postgres://host:5432", "shop.public.orders")),
        ("jdbc:mysql://a:b@host/shop", ("mysql://host", "shop.public.orders")),
        ("jdbc:sqlserver://host;databaseName=shop;password=b", ("sqlserver://host", "public.orders")),
        ("odd", ("jdbc", "public.orders")),
    ],
)
def test_a_table_of_a_database_is_named_without_secrets(url: str, expected: tuple[str, str]) -> None:
    assert dataset_of_jdbc(url, "public.orders") == expected


def test_a_topic_is_named_by_the_first_broker() -> None:
    assert dataset_of_topic("a:9092, b:9092", "orders") == ("kafka://a:9092", "orders")
    assert dataset_of_topic(None, "orders") == ("kafka", "orders")
