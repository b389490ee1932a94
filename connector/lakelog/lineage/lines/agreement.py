"""The newest snapshots of several lines that show the same versions of all that they share.

Each line takes one of its snapshots, or no version at all; what a snapshot shows of a source must be what the source
takes. A source that a line shows at no version takes a value of that line, and so do the sources upstream of it: what
is reached only through that line agrees with itself. Values that no other line supports are removed until nothing
changes; then the newest are tried first. While what lines show only rises, the first try succeeds: agreements are
closed under the newest of each line. After restores it may take more tries. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.metadata.origins import LineKey
from lakelog.lineage.lines.line_state import ABSENT, BROKEN
from lakelog.lineage.lines.shown import ShownSource

TRIES_MAX = 20_000
Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Domains = dict[LineKey, Mask]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShape:
    """What an agreement needs of a line: the version of each step, the number of versions, and what the steps show.

    `version_count` also counts versions that are known only by name. `is_whole` is False for steps with a partial
    batch. `knows_past` is False if expired snapshots may have had other sources than those in `sources`.
    """

    versions: Sequence[int]
    version_count: int
    known_count: int
    is_whole: Sequence[bool]
    sources: Mapping[LineKey, ShownSource]
    knows_past: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link says that a line reads a source: for each value of the line, the key that the source must have."""

    line: LineKey
    source: LineKey
    needed: Keys  # the last key stands for any key


@dataclass(slots=True)
class Agreement:
    """The lines with their values: the steps in order, versions known by name, and for each line what only it shows.

    The last value is that of a line that no other line shows.
    """

    shapes: Mapping[LineKey, LineShape]
    asked: Sequence[LineKey]
    _ids: dict[LineKey, int] = field(default_factory=dict)
    _keys: dict[LineKey, Keys] = field(default_factory=dict)
    _links: list[Link] = field(default_factory=list)
    _beside: dict[LineKey, list[Link]] = field(default_factory=dict)
    _tries: int = 0

    def __post_init__(self) -> None:
        self._ids = {line: number for number, line in enumerate(self.shapes)}
        self._keys = {line: self._keys_of(shape) for line, shape in self.shapes.items()}
        self._links = [
            Link(line=line, source=source, needed=self._needed(line, source))
            for line, shape in self.shapes.items()
            for source in (shape.sources if shape.knows_past else self._possible_sources(line))
        ]
        for link in self._links:
            self._beside.setdefault(link.line, []).append(link)
            self._beside.setdefault(link.source, []).append(link)

    def domains(self, candidates: Mapping[LineKey, Mask]) -> Domains:
        """All values; for the lines in `candidates` only these steps."""
        found: Domains = {}
        for line, keys in self._keys.items():
            allowed = np.ones(len(keys), dtype=np.bool_)
            if line in candidates:
                allowed[:] = False
                allowed[: len(candidates[line])] = candidates[line]  # a mask of the steps, or of all values
            found[line] = allowed
        return found

    def only(self, domains: Domains, line: LineKey, key: int) -> None:
        """Restrict a line to the values of one version."""
        domains[line] &= self._keys[line] == key

    def reduced(self, domains: Domains, changed: Sequence[LineKey] | None = None) -> bool:
        """Remove values that no other line supports; returns False when a line has none left."""
        waiting = self._links[:]
        if changed is not None:
            waiting = [link for line in changed for link in self._beside.get(line, ())]
        while waiting:
            link = waiting.pop()
            for line in self._revise(link, domains):
                if not domains[line].any():
                    return False
                waiting += [other for other in self._beside[line] if other is not link]
        return all(bool(domain.any()) for domain in domains.values())

    def newest(self, domains: Domains) -> dict[LineKey, int] | None:
        """The newest steps of the asked lines, with values of all others; the first line comes before the second."""
        return self.newest_of(domains, self.asked)

    def newest_of(self, domains: Domains, asked: Sequence[LineKey]) -> dict[LineKey, int] | None:
        """Like `newest`, for these lines."""
        self._tries = 0
        order = [*asked, *(line for line in self.shapes if line not in asked)]
        return self._search(domains, order) if self.reduced(domains) else None

    def readers(self, source: LineKey) -> list[LineKey]:
        """The lines that read a source."""
        return [link.line for link in self._beside.get(source, ()) if link.source == source]

    def version(self, line: LineKey, value: int) -> int | None:
        """The version that a value of a line stands for; None for a value that is not a version."""
        key = int(self._keys[line][value])
        return key if key < self.shapes[line].version_count else None

    def above(self, lines: Sequence[LineKey], chosen: Mapping[LineKey, int]) -> dict[LineKey, int]:
        """The versions of all sources upstream that these lines show with these values, nearest first.

        Sources that are shown at no version are not among them.
        """
        found: dict[LineKey, int] = {}
        waiting = list(lines)
        for line in waiting:
            links = (link for link in self._beside.get(line, ()) if link.line == line)
            for source, key in ((link.source, int(link.needed[chosen[line]])) for link in links):
                if source not in found and key < self.shapes[source].version_count:
                    found[source] = key
                    waiting.append(source)
        return found

    def versions(self, line: LineKey, domains: Domains) -> list[int]:
        """The remaining versions of a line, in ascending order."""
        keys = np.unique(self._keys[line][domains[line]])
        return [int(key) for key in keys[keys < self.shapes[line].version_count]]

    def read_versions(self, source: LineKey, domains: Domains) -> list[int]:
        """The remaining versions of a source that some line shows, in ascending order."""
        shown = [link.needed[domains[link.line]] for link in self._beside.get(source, ()) if link.source == source]
        read = set(np.unique(np.concatenate(shown)).tolist()) if shown else set()
        return [key for key in self.versions(source, domains) if key in read]

    def _search(self, domains: Domains, order: Sequence[LineKey]) -> dict[LineKey, int] | None:
        if not order:
            return {line: int(np.flatnonzero(domain)[-1]) for line, domain in domains.items()}
        line, *others = order
        for value in np.flatnonzero(domains[line])[::-1]:
            self._tries += 1
            if self._tries > TRIES_MAX:
                raise UnsupportedError(
                    f"no consistent snapshots were found after {TRIES_MAX} tries: the tables were restored too often "
                    "since. Ask for fewer tables, or for an upstream version with at="
                )
            tried = dict(domains)
            tried[line] = np.zeros_like(domains[line])
            tried[line][value] = True
            tried = {key: domain.copy() for key, domain in tried.items()}
            if self.reduced(tried, [line]):
                found = self._search(tried, others)
                if found is not None:
                    return found
        return None

    def _revise(self, link: Link, domains: Domains) -> list[LineKey]:
        """Remove the values of both ends of a link that the other end does not support; returns the changed ends."""
        keys, any_key = self._keys[link.source], self._any(link.source)
        there = np.zeros(any_key + 1, dtype=np.bool_)
        there[keys[domains[link.source]]] = True
        there[any_key] = True
        line = domains[link.line] & there[link.needed]
        wanted = np.zeros(any_key + 1, dtype=np.bool_)
        wanted[link.needed[line]] = True
        source = domains[link.source] if wanted[any_key] else domains[link.source] & wanted[keys]
        changed = []
        for key, found in ((link.line, line), (link.source, source)):
            if found.sum() < domains[key].sum():
                domains[key] = found
                changed.append(key)
        return changed

    def _possible_sources(self, line: LineKey) -> list[LineKey]:
        """The sources of a line, and all other lines that are not made from it: of its past nothing is known."""
        below = {line}
        while more := {one for one, shape in self.shapes.items() if below & shape.sources.keys()} - below:
            below |= more
        return [one for one in self.shapes if one not in below]

    def _any(self, line: LineKey) -> int:
        return self.shapes[line].version_count + len(self.shapes) + 1

    def _keys_of(self, shape: LineShape) -> Keys:
        others = np.arange(shape.known_count, shape.version_count + len(self.shapes) + 1)
        return np.concatenate([np.asarray(shape.versions, dtype=np.int64), others])

    def _needed(self, line: LineKey, source: LineKey) -> Keys:
        shape, of_source = self.shapes[line], self.shapes[source]
        steps = len(shape.versions)
        broken = of_source.version_count + self._ids[line]
        needed = np.full(len(self._keys[line]), broken, dtype=np.int64)
        needed[:steps] = self._any(source)
        if source in shape.sources:
            needed[:steps] = _filled(shape.sources[source], steps, broken=broken, absent=self._any(source))
            needed[:steps][~np.asarray(shape.is_whole, dtype=np.bool_)] = broken
        tokens = len(self.shapes)
        needed[-tokens - 1 : -1] = of_source.version_count + np.arange(tokens)
        needed[-1] = self._any(source)
        return needed


def _filled(shown: ShownSource, steps: int, *, broken: int, absent: int) -> Keys:
    """The key that each step shows."""
    keys = np.asarray(shown.keys, dtype=np.int64)
    keys = np.where(keys == BROKEN, broken, np.where(keys == ABSENT, absent, keys))
    at = np.searchsorted(np.asarray(shown.positions, dtype=np.int64), np.arange(steps), side="right")
    return np.concatenate([[absent], keys])[at]
