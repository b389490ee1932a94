"""Findings of `lakelog doctor`: named checks, each of which reports that all is well or says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lakelog.common.errors import LakelogError
from lakelog.common.html import html_table


class Status(StrEnum):
    """How a check ended. A `skipped` check could not be made; the finding says why."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check has found. `advice` says what to do; None if nothing is to be done."""

    check: str
    status: Status
    found: str
    advice: str | None = None

    def __str__(self) -> str:
        return f"{self.status:<8} {self.check}: {self.found}" + ("" if self.advice is None else f"; {self.advice}")


@dataclass(repr=False, frozen=True, slots=True, kw_only=True)
class HealthReport:
    """All findings, in the order of the checks."""

    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        return "\n".join(["HealthReport", *(f"  {finding}" for finding in self.findings)])

    def _repr_html_(self) -> str:
        """The findings as notebooks show them; no I/O."""
        return html_table("HealthReport", ("finding",), [(finding,) for finding in self.findings])

    @property
    def is_sound(self) -> bool:
        """True without a problem; warnings and skipped checks are not problems."""
        return all(finding.status is not Status.PROBLEM for finding in self.findings)

    @property
    def problems(self) -> list[Finding]:
        """Only the problems."""
        return [finding for finding in self.findings if finding.status is Status.PROBLEM]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A named check. `needs` is a check that must succeed before this one can be made."""

    name: str
    look: Callable[[], Iterable[tuple[Status, str, str | None]]]
    needs: str | None = None


def ok(found: str) -> tuple[Status, str, str | None]:
    """A good result."""
    return Status.OK, found, None


def problem(found: str, advice: str) -> tuple[Status, str, str | None]:
    """A result that needs a change."""
    return Status.PROBLEM, found, advice


def warning(found: str, advice: str) -> tuple[Status, str, str | None]:
    """A result that works now, but may fail later."""
    return Status.WARNING, found, advice


def skipped(found: str) -> tuple[Status, str, str | None]:
    """A check that could not be made."""
    return Status.SKIPPED, found, None


def run_checks(checks: Iterable[Check]) -> Iterator[Finding]:
    """The findings, each as soon as it is known. An error of lakelog in a check is a problem of that check."""
    failed: set[str] = set()
    for check in checks:
        if check.needs in failed:
            failed.add(check.name)
            found = f"not checked: it needs {check.needs!r}, which has a problem"
            yield Finding(check=check.name, status=Status.SKIPPED, found=found)
            continue
        try:
            for status, found, advice in check.look():
                yield Finding(check=check.name, status=status, found=found, advice=advice)
        except LakelogError as error:
            failed.add(check.name)
            yield Finding(check=check.name, status=Status.PROBLEM, found=str(error), advice="as the message says")
