"""The page of a study and its figures, written into its folder."""

from __future__ import annotations

from pathlib import Path

from npusim.base import files
from npusim.reports.study import figures as study_figures
from npusim.reports.study import page as study_page
from npusim.study.study import Study
from npusim.study.tables import FILES

PAGE = "study.html"


def write_page(study: Study) -> list[Path]:
    """Write study.html and its figures; returns the files."""
    figures = study_figures.writers(study)
    listed = [*FILES, *study_figures.listed(figures)]
    written = {study.path / PAGE: files.text(study_page.render(study, listed))}
    written |= {study.path / name: write for name, write in figures.items()}
    files.write_all(written, follow=False)
    return list(written)
