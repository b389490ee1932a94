from __future__ import annotations

from pathlib import Path

import pytest

from demo.workspace import Workspace


def test_a_folder_of_the_demo_is_made_anew(tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path / "demo")
    workspace.create()
    (workspace.root / "old").touch()
    workspace.create()
    assert not (workspace.root / "old").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="--folder"):
        Workspace(root=tmp_path).create()
    assert (tmp_path / "thesis.tex").exists()
