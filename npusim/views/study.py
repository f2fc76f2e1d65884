"""The public class of studies, with its display in notebooks."""

from __future__ import annotations

from npusim.reports.notebook import notebook
from npusim.study import explore as searching
from npusim.study import study
from npusim.views.shown import with_views


class Study(study.Study):
    __doc__ = study.Study.__doc__

    def _repr_html_(self) -> str:
        """Return the summary as HTML for a notebook."""
        return notebook.study(self)


explore = with_views(Study, searching.explore)
