"""How the browser of the tests is found and installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.servers.chromium import ensure_chromium, find_chromium

APT = """#!/bin/sh
case "$*" in
*--print-uris*)
    echo "'http://deb/libx.deb' libx_1.0_amd64.deb 1 SHA256:0"
    echo "'http://deb/chromium.deb' chromium_2.0_amd64.deb 1 SHA256:0" ;;
*download*) touch libx_1.0_amd64.deb chromium_2.0_amd64.deb ;;
esac
"""
DPKG = """#!/bin/sh
case "$2" in
*chromium_*) mkdir -p "$3/usr/lib/chromium"; echo >"$3/usr/lib/chromium/chromium" ;;
*libx_*) mkdir -p "$3/usr/lib/x86_64-linux-gnu"; echo >"$3/usr/lib/x86_64-linux-gnu/libx.so" ;;
esac
"""


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> dict[str, str]:
    """An environment whose PATH has some programs, and a cache of its own."""
    tools = folder / "bin"
    tools.mkdir()
    for name, text in texts.items():
        program = tools / name.replace("_", "-")
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}")
    for name in ("sh", "touch", "mkdir"):
        (tools / name).symlink_to(f"/bin/{name}")
    return {"PATH": str(tools), "LAKELOG_CACHE_DIR": str(folder / "cache")}


def test_an_installed_browser_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = programs(tmp_path, monkeypatch, chromium="#!/bin/sh\n")
    assert ensure_chromium(environ).program == tmp_path / "bin" / "chromium"


def test_a_named_browser_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="LAKELOG_CHROMIUM names '/nowhere/chrome', which is not a program"):
        find_chromium({"LAKELOG_CHROMIUM": "/nowhere/chrome", "LAKELOG_CACHE_DIR": str(tmp_path)})


def test_without_root_debians_packages_are_unpacked_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = programs(tmp_path, monkeypatch, apt_get=APT, dpkg_deb=DPKG)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = ensure_chromium(environ)
    unpacked = tmp_path / "cache" / "chromium"
    assert found.program == unpacked / "usr/lib/chromium/chromium"
    assert (
        found.environment({"LD_LIBRARY_PATH": "/own"})["LD_LIBRARY_PATH"] == f"{unpacked}/usr/lib/x86_64-linux-gnu:/own"
    )
    assert sorted(path.name for path in unpacked.parent.iterdir()) == ["chromium", "chromium.lock"]


@pytest.mark.parametrize("tools", [{}, {"apt_get": "#!/bin/sh\necho no network >&2\nexit 100\n"}])
def test_a_machine_that_can_have_no_browser_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: dict[str, str]
) -> None:
    environ = programs(tmp_path, monkeypatch, **tools)
    why = "no network" if tools else "this machine has no apt-get"
    with pytest.raises(
        SystemExit, match=rf"(?s){why}.*Install chromium, or name a Chromium or Chrome in LAKELOG_CHROMIUM"
    ):
        ensure_chromium(environ)
