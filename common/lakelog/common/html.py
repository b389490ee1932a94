"""How shells and notebooks show objects. Every value is escaped, since names and comments come from others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import fields
from html import escape
from typing import Any, TypeVar, cast  # Any: a dataclass of any kind

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, escaped
from lakelog.common.timestamps import shown_millis

Item = TypeVar("Item")

ROWS_MAX = 100
_LENGTH_MAX = 200
_DURATIONS = {"retention_millis"}


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table under a title, of many rows only the first ones and their number. None is an empty cell."""
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


class ShowsFields:
    """A dataclass without a `repr` of its own that shows a field a line, and as a table in notebooks.

    Fields that are None or empty are left out; times in `..._millis` are shown in UTC.
    """

    __slots__ = ()

    def _shown(self) -> list[tuple[str, str]]:
        found = ((one.name, getattr(self, one.name)) for one in fields(cast("Any", self)))
        return [
            (name.removesuffix("_millis"), shown_millis(value))
            if name.endswith("_millis") and name not in _DURATIONS
            else (name, escaped(str(value)))
            for name, value in found
            if value is not None and value not in ("", (), [], {})
        ]

    def __repr__(self) -> str:
        rows = self._shown()
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(
            [type(self).__name__, *(f"  {name:<{width}}  {cut(text, _LENGTH_MAX)}" for name, text in rows)]
        )

    def _repr_html_(self) -> str:
        """The fields as notebooks show them; no I/O."""
        return html_table(type(self).__name__, ("field", "value"), self._shown())


class ShowsPage(ABC):
    """An answer that a notebook shows as a page, in a frame of its own: `to_html` gives the page, one file."""

    __slots__ = ()

    @abstractmethod
    def to_html(self) -> str:
        """The page. Raises InvalidRequestError for an answer that no page shows."""

    def _repr_html_(self) -> str | None:
        """The page for a notebook; None for an answer that no page shows: notebooks then show its text."""
        try:
            page = self.to_html()
        except InvalidRequestError:
            return None
        # The frame has no access to the notebook, and to nothing else.
        return (
            f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" title="Lineage" '
            'style="width: 100%; height: 560px; border: 0"></iframe>'
        )


class ShownIterator(Iterator[Item]):
    """An iterator that says what it iterates over; `show` gives the text, and takes no item."""

    def __init__(self, items: Iterator[Item], show: Callable[[], str]) -> None:
        """Wrap an iterator."""
        self._items, self._show = items, show

    def __next__(self) -> Item:
        return next(self._items)

    def __repr__(self) -> str:
        return self._show()

    def close(self) -> None:
        """End the iterator, and what it holds open."""
        if isinstance(self._items, Generator):
            self._items.close()
