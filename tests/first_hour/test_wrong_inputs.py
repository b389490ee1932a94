"""The installed wheel answers a wrong input by an error that names the thing, what was found and the way out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.first_hour.wrong_inputs import COMMAND_LINE, SETUP, SPARK, SPARK_SETUP, WITHOUT_SPARK, WrongInput
from tests.support.servers.wheel import Wheel

RUNNER = Path(__file__).parent / "run_inputs.py"
Answers = Mapping[str, tuple[str, str]]


def ask(
    wheel: Wheel, folder: Path, setup: str, python: Sequence[WrongInput], commands: Sequence[WrongInput]
) -> Answers:
    """Run the inputs in one process, which has the wheel; what was typed -> error class and message."""
    asked = {
        "setup": setup,
        "python": [wrong.typed for wrong in python],
        "commands": [wrong.typed for wrong in commands],
    }
    ended = subprocess.run(
        [*wheel.python, str(RUNNER)],
        input=json.dumps(asked),
        cwd=folder,
        env=wheel.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    found = json.loads(ended.stdout.splitlines()[-1])
    return {wrong.typed: (error, message) for wrong, (error, message) in zip([*python, *commands], found, strict=True)}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("first_hour")


@pytest.fixture(scope="module")
def answers(wheel: Wheel, warehouse: Path) -> Answers:
    """What Python and the command line answer; the tables of `SETUP` are there afterwards."""
    return ask(wheel, warehouse, SETUP, WITHOUT_SPARK, COMMAND_LINE)


@pytest.fixture(scope="module")
def spark_answers(wheel: Wheel, warehouse: Path, answers: Answers) -> Answers:
    """What Spark answers, in one session."""
    return ask(wheel, warehouse, SPARK_SETUP, SPARK, [])


def check_answer(wrong: WrongInput, answers: Answers) -> None:
    """The error has the class and names each of the strings."""
    error, message = answers[wrong.typed]
    assert error == wrong.error, message
    assert [word for word in wrong.words if word not in message] == [], message


@pytest.mark.parametrize("wrong", WITHOUT_SPARK, ids=lambda wrong: wrong.typed)
def test_python_answers_a_wrong_input_with_what_to_do(wrong: WrongInput, answers: Answers) -> None:
    check_answer(wrong, answers)


@pytest.mark.parametrize("wrong", COMMAND_LINE, ids=lambda wrong: wrong.typed)
def test_the_command_line_answers_a_wrong_input_with_what_to_do(wrong: WrongInput, answers: Answers) -> None:
    check_answer(wrong, answers)


@pytest.mark.integration
@pytest.mark.parametrize("wrong", SPARK, ids=lambda wrong: wrong.typed)
def test_spark_answers_a_wrong_input_with_what_to_do(wrong: WrongInput, spark_answers: Answers) -> None:
    check_answer(wrong, spark_answers)


def test_no_wrong_input_changes_a_table(answers: Answers, warehouse: Path) -> None:
    assert sorted(path.name for path in (warehouse / "lake" / "db.db").iterdir()) == ["airports", "visits"]
    assert [path.name for path in (warehouse / "lake/db.db/airports/snapshot").glob("snapshot-*")] == ["snapshot-1"]


def test_there_are_forty_wrong_inputs() -> None:
    typed = [wrong.typed for wrong in (*WITHOUT_SPARK, *COMMAND_LINE, *SPARK)]
    assert len(set(typed)) == len(typed) >= 40
