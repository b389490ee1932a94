"""Which programs and datasets are around a dataset, level by level, in the form of CDAP.

A level is from the datasets that were found to all programs that read or write one of them, with everything that these
programs read and write. Source: CDAP, `LineageAdmin`, `LineageSerializer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.server.cdap_answers import Program, entity

COLLAPSES = ("ACCESS", "RUN", "COMPONENT")
ROLLUPS = ("WORKFLOW",)


class Access(NamedTuple):
    """A run of a program reads or writes a dataset: `kind` is READ, WRITE or UNKNOWN."""

    program: Program
    dataset: Dataset
    kind: str
    run: str


def relations_around(accesses: Iterable[Access], start: Dataset, levels: int) -> list[Access]:
    """The accesses within some levels of a dataset, each once."""
    known = list(dict.fromkeys(accesses))
    of_dataset: dict[Dataset, set[Program]] = {}
    of_program: dict[Program, list[Access]] = {}
    for one in known:
        of_dataset.setdefault(one.dataset, set()).add(one.program)
        of_program.setdefault(one.program, []).append(one)
    datasets, programs, left = {start}, set[Program](), {start}
    for _ in range(levels):
        reached = set[Program]().union(*(of_dataset.get(one, set()) for one in left)) - programs
        if not reached:
            break
        programs |= reached
        left = {one.dataset for program in reached for one in of_program[program]} - datasets
        datasets |= left
    return [one for one in known if one.program in programs]


def levels_json(times: tuple[int, int], found: Sequence[Access], collapse: Collection[str]) -> Json:
    """The answer; `times` are seconds. Relations that differ in what is collapsed alone are one."""
    groups: dict[tuple[object, ...], list[Access]] = {}
    for one in found:
        key = (
            one.dataset,
            one.program,
            None if "ACCESS" in collapse else one.kind,
            None if "RUN" in collapse else one.run,
        )
        groups.setdefault(key, []).append(one)
    return {
        "start": times[0],
        "end": times[1],
        "relations": [
            {
                "data": dataset_key(some[0].dataset),
                "program": program_key(some[0].program),
                "accesses": sorted({one.kind.lower() for one in some}),
                "runs": list(dict.fromkeys(one.run for one in some)),
                "components": [],
            }
            for some in groups.values()
        ],
        "programs": {program_key(one.program): {"entityId": one.program.to_json()} for one in found},
        "data": {dataset_key(one.dataset): {"entityId": entity(one.dataset)} for one in found},
    }


def dataset_key(dataset: Dataset) -> str:
    """The key of a dataset. The dots of a namespace are encoded, so that no two datasets have one key."""
    return f"dataset.{_encoded(dataset.namespace)}.{dataset.name}"


def program_key(program: Program) -> str:
    """The key of a program."""
    return f"spark.{_encoded(program.namespace)}.lakelog.{program.name}"


def _encoded(namespace: str) -> str:
    return namespace.replace("%", "%25").replace(".", "%2E")
