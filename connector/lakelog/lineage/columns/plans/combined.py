"""Values that are made from other values, in the plainest ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # Any: parsed JSON

from lakelog.common.quoting import cut
from lakelog.lineage.columns.field_edges import EdgeKind, all_of, along
from lakelog.lineage.columns.plans.derived import Derived
from lakelog.lineage.columns.plans.expression_text import text_of

TEXT_MAX = 2_000  # of an expression
MASKING = frozenset({"Count", "Crc32", "Mask", "Md5", "Murmur3Hash", "Sha1", "Sha2", "XxHash64"})


def unchanged(children: Sequence[Derived]) -> Derived:
    """The children as they are."""
    if len(children) == 1:
        return children[0]
    return joined(children, EdgeKind.IDENTITY, ", ".join(filter(None, (child.text for child in children))))


def changed(name: str, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A function of its children, which is not known further."""
    text = text_of(name, members, [child.text for child in children])
    return joined(children, EdgeKind.TRANSFORMATION, cut(text, TEXT_MAX), is_masking=name in MASKING)


def chosen(values: Sequence[Derived], conditions: Sequence[Derived], text: str) -> Derived:
    """One of the values, according to the conditions."""
    direct = along(all_of([value.edges for value in values]), EdgeKind.TRANSFORMATION)
    indirect = along(all_of([condition.edges for condition in conditions]), EdgeKind.CONDITIONAL)
    return Derived(all_of((direct, indirect)), text, any(one.is_opaque for one in (*values, *conditions)))


def joined(children: Sequence[Derived], kind: EdgeKind, text: str, *, is_masking: bool = False) -> Derived:
    """A value that is made from all of these."""
    edges = along(all_of([child.edges for child in children]), kind, is_masking=is_masking)
    return Derived(edges, text, any(child.is_opaque for child in children))
