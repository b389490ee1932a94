from __future__ import annotations

import re
import uuid

import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.warehouse.identifier import Identifier


def test_an_identifier_gives_a_folder_and_the_folder_gives_it_back() -> None:
    identifier = Identifier.parse("db.flights")

    assert identifier.path("/lake") == "/lake/db.db/flights"
    assert Identifier.of_path("/lake/db.db/flights") == identifier
    assert str(identifier) == "db.flights"


@pytest.mark.parametrize(
    "text", ["flights", "a.b.c", "", ".", "db.", ".t", "db.a/b", "db...", "db.-t", "db.a b", "db._"]
)
def test_what_is_no_identifier_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"expected (database\.table|letters)"):
        Identifier.parse(text)


def test_letters_of_any_script_are_letters() -> None:
    assert Identifier.parse("läke.flüge_2013-01").table == "flüge_2013-01"


def test_a_folder_outside_of_a_warehouse_has_no_identifier() -> None:
    assert Identifier.of_path("/lake/flights") is None


def test_a_topic_is_readable_and_within_what_kafka_allows() -> None:
    table_uuid = str(uuid.UUID(int=7))

    assert Identifier("db", "flüge").topic(table_uuid) == f"db.fl_ge.{table_uuid}"
    long = Identifier("d" * 200, "t" * 200).topic(table_uuid)
    assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", long)
    assert long.endswith(f".{table_uuid}")
