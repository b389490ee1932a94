"""The pages tell the truth: their Python runs, their commands and links exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.s3_server import S3Server

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

# What a page's Python must have come to, in its own names.
CHECKS = {
    "README.md": """
assert stream.isStreaming
assert sorted(row.id for row in then.collect()) == [1, 2, 3]
assert late.rows() == [(2, 90)]
""",
}
CHANGES = [{"id": 1, "carrier": "UA", "delay": 0}, {"id": 2, "carrier": "AA", "delay": 90}, {"id": 3, "carrier": "B6"}]


def blocks(page: str, *languages: str) -> list[str]:
    """The code blocks of a page in one of the languages, in order."""
    text = (ROOT / page).read_text("utf-8")
    return [code for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S) if language in languages]


def command_lines(page: str) -> list[list[str]]:
    """The commands of a page's shell blocks, as words."""
    lines = "\n".join(blocks(page, "shell", "console", "sh", "bash")).splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


@pytest.mark.integration
@pytest.mark.parametrize("page", [name for name in NAMES if blocks(name, "python")])
def test_the_code_of_a_page_runs_and_its_commands_follow(
    page: str, tmp_path: Path, bootstrap_servers: str, s3: S3Server
) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "1.json").write_text("\n".join(map(json.dumps, CHANGES)))
    program = "\n".join([*blocks(page, "python"), CHECKS.get(page, "")])
    s3.new_bucket("my-bucket")
    env = {**os.environ, "LAKELOG_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers, **s3.environment}

    commands = [["-c", program]]
    commands += [["-m", "lakelog.cli", *words[1:]] for words in command_lines(page) if words[0] == "lakelog"]
    for command in commands:
        ended = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"


@pytest.mark.parametrize("page", NAMES)
def test_the_scripts_that_a_page_names_exist(page: str) -> None:
    named = set(re.findall(r"(?:scripts|\.ci)/[\w.-]*\w", (ROOT / page).read_text("utf-8")))
    missing = sorted(name for name in named if not (ROOT / name).exists())
    assert missing == []


@pytest.mark.parametrize("page", NAMES)
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text("utf-8"))
    missing = [
        target for target in targets if "://" not in target and not (ROOT / page).parent.joinpath(target).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", NAMES)
def test_a_link_into_a_page_names_one_of_its_headings(page: str) -> None:
    missing = [
        f"{target}#{anchor}"
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", (ROOT / page).read_text("utf-8"))
        if anchor not in anchors((ROOT / page).parent / target if target else ROOT / page)
    ]
    assert missing == []


def anchors(page: Path) -> set[str]:
    """What links name the headings of a page by, as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_two_commands_of_the_readme_are_scripts() -> None:
    commands = [words[0] for words in command_lines("README.md") if words[0] != "lakelog"]
    assert commands == ["scripts/demo", "scripts/test"]
    assert all(os.access(ROOT / command, os.X_OK) for command in commands)
