"""The packages of the wheel: every folder of the rooms that is a package, found here and listed nowhere."""

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

setup(
    package_dir=ROOMS,
    packages=[
        ".".join([name, *file.parent.relative_to(folder).parts])
        for name, folder in ROOMS.items()
        for file in sorted(Path(folder).rglob("__init__.py"))
    ],
)
