"""The version names the build: the commit of a checkout, read from git's files in every shape that git leaves them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from npusim.isa.base import version

ME = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(("git", *ME, *words), cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    folder = tmp_path / "checkout"
    folder.mkdir()
    _git(folder, "init", "--quiet", "--initial-branch", "some/branch")
    _git(folder, "commit", "--quiet", "--allow-empty", "--message", "First")
    return folder


def test_branch_packed_detached_and_worktree_name_the_commit(checkout: Path, tmp_path: Path) -> None:
    commit = _git(checkout, "rev-parse", "HEAD")
    assert version.checked_out(checkout) == commit
    _git(checkout, "pack-refs", "--all")
    assert version.checked_out(checkout) == commit
    _git(checkout, "worktree", "add", "--quiet", str(tmp_path / "beside"))
    _git(tmp_path / "beside", "commit", "--quiet", "--allow-empty", "--message", "Second")
    second = version.checked_out(tmp_path / "beside")
    assert second == _git(tmp_path / "beside", "rev-parse", "HEAD") != commit
    _git(checkout, "checkout", "--quiet", "--detach")
    assert version.checked_out(checkout) == commit


def test_no_checkout_and_damaged_ones_name_none(tmp_path: Path) -> None:
    assert version.checked_out(tmp_path) == ""
    git = tmp_path / ".git"
    git.write_text("gitdir: gone")
    assert version.checked_out(tmp_path) == ""
    git.unlink()
    git.mkdir()
    for head in ("", "ref: refs/heads/none", "not a commit", "0" * 39):
        (git / "HEAD").write_text(head)
        assert version.checked_out(tmp_path) == ""
    (git / "HEAD").write_bytes(b"\xff\xfe")
    assert version.checked_out(tmp_path) == ""


def test_version_is_the_release_and_the_commit() -> None:
    commit = version.checked_out(version.SOURCES)
    local = rf"\+g{commit[: version.COMMIT_DIGITS]}" if commit else r"(\+g[0-9a-f]{12})?"
    assert re.fullmatch(rf"\d+\.\d+\.\d+(\.dev\d+)?{local}", version.npusim_version())


def test_sources_digest_tells_one_changed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "installed"
    (package / "isa" / "__pycache__").mkdir(parents=True)
    (package / "isa" / "a.py").write_text("1")
    (package / "isa" / "__pycache__" / "a.pyc").write_text("compiled")
    checkout = tmp_path / "checkout"
    for room in ("npusim", "isa"):
        (checkout / room).mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    (checkout / "isa" / "a.py").write_text("1")

    def digest(folder: Path) -> str:
        monkeypatch.setattr(version, "SOURCES", folder)
        version.sources_digest.cache_clear()
        return version.sources_digest()

    try:
        before = digest(package)
        assert digest(checkout) == before  # the same files under the same import names
        (package / "isa" / "a.py").write_text("2")
        assert digest(package) != before
        (package / "isa" / "a.py").rename(package / "isa" / "b.py")
        assert digest(package) not in (before, "")
    finally:
        version.sources_digest.cache_clear()
