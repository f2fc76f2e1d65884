"""The packages and the version of the wheel: every folder that is a package, found here and listed nowhere."""

import subprocess
from pathlib import Path

from setuptools import setup

ROOMS = {
    "npusim": "npusim",
    "npusim.isa": "isa",
    "npusim.kernels": "kernels",
    "npusim.scheduler": "scheduler",
    "npusim.reports": "reports",
}
"""Import names of the top-level folders."""


def _build() -> str:
    """Return what follows the release in the version of a wheel: the commit, unless it is tagged as the release."""
    try:
        command = ("git", "describe", "--always", "--long", "--abbrev=12", "--tags", "--match", "v*")
        words = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return ""  # no git, or no checkout: a source distribution keeps what it was made with
    tag, _, rest = words.stdout.strip().partition("-")
    distance, _, commit = rest.partition("-g")
    return "" if distance == "0" else f"+g{commit or tag}"


BUILD = _build()

setup(
    **({"options": {"egg_info": {"tag_build": BUILD}}} if BUILD else {}),
    package_dir=ROOMS,
    packages=[
        ".".join([name, *file.parent.relative_to(folder).parts])
        for name, folder in ROOMS.items()
        for file in sorted(Path(folder).rglob("__init__.py"))
    ],
)
