"""The public class of comparisons, with its display in notebooks."""

from __future__ import annotations

from npusim.comparison import comparison
from npusim.reports.notebook import notebook
from npusim.views.shown import with_views


class Comparison(comparison.Comparison):
    __doc__ = comparison.Comparison.__doc__

    def _repr_html_(self) -> str:
        """Return the comparison as HTML for a notebook."""
        return notebook.comparison(self)


compare = with_views(Comparison, comparison.compare)
