"""A package whose `__init__.py` is executed when somebody needs it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from npusim.isa.base.deferred import deferred


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = tmp_path / "late_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("__version__ = '3'\nfrom late_package.part import PART\n")
    (folder / "part.py").write_text("PART = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("late_package", "late_package.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return deferred("late_package")


def test_a_module_comes_without_the_package(package: ModuleType) -> None:
    assert import_module("late_package") is package
    assert import_module("late_package.part").PART == 5
    assert not hasattr(package, "__wrapped__")
    assert "PART" not in vars(package)


@pytest.mark.parametrize(("name", "value"), [("PART", 5), ("__version__", "3")])
def test_an_attribute_executes_the_package(name: str, value: object, package: ModuleType) -> None:
    assert getattr(package, name) == value
    assert "PART" in dir(package)
    assert "__getattr__" not in vars(package)


def test_the_names_of_the_package_are_complete(package: ModuleType) -> None:
    assert {"PART", "__version__"} <= set(dir(package))


def test_a_package_that_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'"):
        deferred("no_such_package")
