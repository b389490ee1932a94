"""Keys of options of single columns."""

from __future__ import annotations

import pytest

from lakelog.filestore.options.field_options import FieldOption, field_key, field_option
from lakelog.filestore.schema.column_options import renamed_in_options


@pytest.mark.parametrize("key", ["fields.default-aggregate-function", "fields.distinct", "bucket", "field.a.distinct"])
def test_a_key_without_a_column_is_no_option_of_one(key: str) -> None:
    assert field_option(key, "1") is None


@pytest.mark.parametrize("suffix", ["distinct", "sequence-group", "map.storage-layout"])
@pytest.mark.parametrize("name", ["a", "a.b", "map"])
def test_a_key_is_read_as_it_was_made(name: str, suffix: str) -> None:
    assert field_option(field_key(name, suffix), "v") == FieldOption((name,), suffix, "v")


def test_a_group_names_the_columns_of_its_key_and_of_its_value() -> None:
    option = field_option("fields.a, b.sequence-group", "c,d")
    assert option is not None
    assert option.named == ("a", "b", "c", "d")


def test_a_renamed_map_keeps_its_layout() -> None:
    options = {"fields.m.map.storage-layout": "default"}
    assert renamed_in_options(options, "m", "n") == {"fields.n.map.storage-layout": "default"}
