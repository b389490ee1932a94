"""The pages tell the truth: their Python runs, their commands and links exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from scripts import api_page, operators_page

from lakelog.catalog.procedures.procedures import MISSING, PROCEDURES
from lakelog.spark.sink import batch_run, stages
from tests.support.servers.s3_server import S3Server
from tests.support.servers.wheel import Wheel
from tests.test_guarantees import module_path, names_of

ROOT = Path(__file__).parent.parent
NOTEBOOK = ".ipynb"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob(f"*{NOTEBOOK}")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

# What a page's Python must have come to, in its own names.
CHECKS = {
    "README.md": """
assert stream.isStreaming
assert sorted(row.id for row in first.collect()) == [1, 2]
assert delayed.rows() == [(2, 90)]
assert sorted(tuple(row) for row in longest.collect()) == [("AA", 90), ("UA", 0)]
""",
    "docs/guide/streams.md": """
from pathlib import Path

Path("changes/2.json").write_text('{"id": 1, "carrier": "AA", "delay": 5}')
first = write_stream(rows, "db.flights", catalog=catalog, checkpoint_location="ck/flights", available_now=True)
first.awaitTermination()
again = {"checkpoint_location": "ck/by_carrier", "output_mode": "update", "available_now": True}
write_stream(sums, "db.by_carrier", catalog=catalog, **again).awaitTermination()
counted = read(spark, "db.by_carrier", catalog=catalog).collect()
assert {row.carrier: row.flights for row in counted} == {"UA": 0, "AA": 2, "B6": 1}
""",
}
_LONG_PAGES = (
    "consistent",
    "field-lineage",
    "from-laptop-to-cluster",
    "ingest",
    "lineage",
    "lineage-tables",
    "log-consumers",
    "log-operations",
    "observing",
    "openlineage",
    "streams",
)
LONG = {f"docs/guide/{name}.md" for name in _LONG_PAGES}  # with Spark
RUN_AGAIN = {"README.md", "docs/tour.ipynb"}  # readers run these again: twice in one process, and once in another
LINE_LENGTH_MAX = 120
SOURCE_ROOTS = ("common", "filestore", "logstore", "connector")
CHANGES = [{"id": 1, "carrier": "UA", "delay": 0}, {"id": 2, "carrier": "AA", "delay": 90}, {"id": 3, "carrier": "B6"}]

# All commands of a page in one process; that a command fails ends it.
RUN_COMMANDS = """
from lakelog.cli.main import main

for words in COMMANDS:
    try:
        main(words)
    except SystemExit as ended:
        if ended.code:
            raise
"""


def blocks(page: str, *languages: str) -> list[str]:
    """The code blocks of a page in one of the languages, in order."""
    text = (ROOT / page).read_text("utf-8")
    if page.endswith(NOTEBOOK):
        cells = json.loads(text)["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code" and "python" in languages]
    return [code for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S) if language in languages]


def command_lines(page: str) -> list[list[str]]:
    """The commands of a page's shell blocks, as words."""
    lines = "\n".join(blocks(page, "shell", "console", "sh", "bash")).splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def lakelog_commands(page: str) -> list[list[str]]:
    """The arguments of `lakelog` in a page's shell blocks."""
    return [words[1:] for words in command_lines(page) if words[0] == "lakelog"]


def pages_that_run() -> Iterator[object]:
    """The pages with Python or commands; those that take long are no part of the gate.

    The examples of `docs/api.md` are those of docstrings, which `tests/test_examples.py` runs.
    """
    for name in NAMES:
        if name != "docs/api.md" and (blocks(name, "python") or lakelog_commands(name)):
            yield pytest.param(name, marks=[pytest.mark.full] if name in LONG else [])


class PageRunner:
    """One process that runs pages, see `tests.support.jobs.page_runner`."""

    def __init__(self, python: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Start it; it is idle."""
        self.folder, self.environment = folder, environment
        program = (ROOT / "tests" / "support" / "jobs" / "page_runner.py").read_text("utf-8")
        self._process = subprocess.Popen(
            [*python, "-c", program],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, code: str, files: Mapping[str, str]) -> str | None:
        """What went wrong with a page; None for nothing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"code": code, "files": files}) + "\n")
        self._process.stdin.flush()
        answer: str | None = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        """End it, with its Spark."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, wheel: Wheel, bootstrap_servers: str, s3: S3Server
) -> Iterator[PageRunner]:
    """A process in which pages run, with what they need."""
    s3.new_bucket("my-bucket")
    environment = {**wheel.environment, **s3.environment, "LAKELOG_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers}
    runner = PageRunner(wheel.python, tmp_path_factory.mktemp("pages"), environment)
    yield runner
    runner.end()


@pytest.mark.integration
@pytest.mark.parametrize("page", list(pages_that_run()))
def test_the_code_of_a_page_runs_and_its_commands_follow(page: str, pages: PageRunner, wheel: Wheel) -> None:
    files = {} if page in RUN_AGAIN else {"changes/1.json": "\n".join(map(json.dumps, CHANGES))}  # else it is empty
    program = "\n".join([*blocks(page, "python"), CHECKS.get(page, "")])
    assert pages.run(f"{program}\n{program}" if page in RUN_AGAIN else program, files) is None

    servers = {"LAKELOG_KAFKA_BOOTSTRAP_SERVERS"} if "log.system" not in program else set()
    environment = {key: value for key, value in pages.environment.items() if key not in servers}
    again = [program] if page in RUN_AGAIN else []
    for code in (*again, f"COMMANDS = {lakelog_commands(page)}\n{RUN_COMMANDS}"):
        ended = subprocess.run(
            [*wheel.python, "-c", code], cwd=pages.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


@pytest.mark.parametrize("page", NAMES)
def test_the_scripts_that_a_page_names_exist(page: str) -> None:
    named = set(re.findall(r"(?:scripts|\.ci)/[\w.-]*\w", (ROOT / page).read_text("utf-8")))
    missing = sorted(name for name in named if not (ROOT / name).exists())
    assert missing == []


@pytest.mark.parametrize("page", NAMES)
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r"^\[[\w-]+\]: (\S+)", text, re.MULTILINE)
    missing = [
        target for target in targets if "://" not in target and not (ROOT / page).parent.joinpath(target).exists()
    ]
    assert missing == []
    named, given = set(re.findall(r"\]\[([\w-]+)\]", text)), set(re.findall(r"^\[([\w-]+)\]: ", text, re.MULTILINE))
    assert named == given


def test_the_pages_that_the_code_names_exist() -> None:
    code = [path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("*.py")]
    named = {page for path in code for page in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8"))}
    assert named
    assert [page for page in sorted(named) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("page", NAMES)
def test_a_link_into_a_page_names_one_of_its_headings(page: str) -> None:
    missing = [
        f"{target}#{anchor}"
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", (ROOT / page).read_text("utf-8"))
        if anchor not in anchors((ROOT / page).parent / target if target else ROOT / page)
    ]
    assert missing == []


def test_the_guide_lists_each_of_its_pages() -> None:
    listed = re.findall(r"\]\((guide/[\w-]+\.md)\)", (ROOT / "docs" / "guide.md").read_text("utf-8"))
    assert sorted(listed) == sorted(f"guide/{page.name}" for page in (ROOT / "docs" / "guide").glob("*.md"))


def test_the_page_on_sql_names_each_procedure_and_those_of_paimon_that_are_missing() -> None:
    text = (ROOT / "docs/guide/sql.md").read_text("utf-8")
    assert [name for name in (*PROCEDURES, *MISSING) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", [name for name in NAMES if name.startswith("docs/guide") or name == "README.md"])
def test_the_lines_of_a_page_have_at_most_120_characters(page: str) -> None:
    lines = (ROOT / page).read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > LINE_LENGTH_MAX] == []


def test_the_page_of_the_api_is_made_from_the_code() -> None:
    assert (ROOT / "docs" / "api.md").read_text("utf-8") == api_page.page(), "run: scripts/api > docs/api.md"


def test_the_page_of_the_operators_is_made_from_the_code() -> None:
    text = (ROOT / "docs" / "field-lineage-operators.md").read_text("utf-8")
    assert text == operators_page.page(), "run: scripts/operators > docs/field-lineage-operators.md"


def anchors(page: Path) -> set[str]:
    """What links name the headings of a page by, as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_two_commands_of_the_readme_are_scripts() -> None:
    commands = [words[0] for words in command_lines("README.md") if words[0] != "lakelog"]
    assert commands == ["scripts/demo", "scripts/test"]
    assert all(os.access(ROOT / command, os.X_OK) for command in commands)


WALK = "docs/how-it-works.md"
NAMED = re.compile(r"`(lakelog(?:\.\w+)+)(?:: ([\w.]+))?`")


def test_the_page_of_the_code_names_what_exists() -> None:
    named = NAMED.findall((ROOT / WALK).read_text("utf-8"))
    paths = {module: module_path(module) or module_path(f"{module}.__init__") for module, _ in named}
    missing = [
        (module, name)
        for module, name in named
        if (path := paths[module]) is None or (name and name not in names_of(path))
    ]
    assert named
    assert missing == []


def test_the_page_of_the_code_has_the_stages_of_a_batch_in_their_order() -> None:
    known = (stages.__name__, batch_run.__name__)
    named = [name for module, name in NAMED.findall((ROOT / WALK).read_text("utf-8")) if module in known]
    run = [stage.__name__ for stage in (*stages.BEFORE, *stages.PREPARE, *stages.ATTEMPT, *stages.AFTER)]
    assert [name for name in named if name] == run
