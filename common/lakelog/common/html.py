"""Small HTML tables, as notebooks show objects. Every value is escaped, since names and comments come from others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from lakelog.common.quoting import cut, escaped

ROWS_MAX = 100
_LENGTH_MAX = 200


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table under a title; if there are many rows, only the first ones and the number of rows. None is an empty
    cell."""
    given = list(rows)
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in given[:ROWS_MAX])
    if len(given) > ROWS_MAX:
        body += f'<tr><td colspan="{len(header)}">... ({len(given)} in all)</td></tr>'
    return (
        f"<div><strong>{_text(title)}</strong><table><thead><tr>{_cells('th', header)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(tag: str, values: Sequence[object]) -> str:
    return "".join(f'<{tag} style="text-align:left">{_text(value)}</{tag}>' for value in values)


def _text(value: object) -> str:
    return "" if value is None else escape(escaped(cut(str(value), _LENGTH_MAX)))
