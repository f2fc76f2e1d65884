"""The fixed versions that `make demo` and `make test` install: all that pyproject.toml asks for, with hashes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FIXED = re.compile(
    r"^([\w.-]+)==(\S+)(?: ; ([^\\]+?))? \\\n((?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M
)


def fixed(name: str) -> dict[str, list[Requirement]]:
    """The versions of a file by package, each with the condition on machine and Python."""
    text = (ROOT / f"requirements/{name}.txt").read_text("utf-8")
    found: dict[str, list[Requirement]] = {}
    for package, version, condition, _ in FIXED.findall(text):
        line = f"{package}=={version}" + (f" ; {condition}" if condition else "")
        found.setdefault(canonicalize_name(package), []).append(Requirement(line))
    left = re.sub(r"(?m)^ *#.*\n", "", FIXED.sub("", text))
    assert left == "", f"requirements/{name}.txt: neither a version with hashes nor a comment: {left[:200]}"
    return found


def asked(extra: str | None) -> Iterator[Requirement]:
    """What pyproject.toml asks for, with what the extras of an extra ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    extras = [extra] if extra else []
    while extras:
        for line in project["project"]["optional-dependencies"][extras.pop()]:
            wanted = Requirement(line)
            if wanted.name == project["project"]["name"]:
                extras += wanted.extras
            else:
                lines.append(line)
    return map(Requirement, lines)


@pytest.mark.parametrize(("name", "extra"), [("run", None), ("dev", "dev")])
def test_what_is_asked_for_has_a_fixed_version(name: str, extra: str | None) -> None:
    there = fixed(name)
    for wanted in asked(extra):
        versions = there.get(canonicalize_name(wanted.name), [])
        assert versions, f"requirements/{name}.txt has no {wanted.name}: make pins"
        for one in versions:
            [version] = one.specifier
            assert wanted.specifier.contains(version.version), f"{one} is not {wanted}: make pins"


def test_both_commands_install_the_same_versions() -> None:
    run, dev = fixed("run"), fixed("dev")
    assert run.keys() <= dev.keys()
    assert {name: list(map(str, run[name])) for name in run} == {
        name: list(map(str, dev[name])) for name in run
    }


@pytest.mark.parametrize("name", ["run", "dev"])
def test_every_python_and_machine_has_one_version(name: str) -> None:
    machines = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64")]
    for package, versions in fixed(name).items():
        for python in ("3.11", "3.12", "3.13"):
            for system, machine in machines:
                here = {
                    "python_version": python, "python_full_version": f"{python}.1", "sys_platform": system,
                    "platform_machine": machine, "platform_python_implementation": "CPython",
                    "implementation_name": "cpython",
                }  # fmt: skip
                held = [one for one in versions if one.marker is None or one.marker.evaluate(here)]
                assert len(held) <= 1, f"{package}: {held} for Python {python} on {system} {machine}"
