"""The public class of what-if results, with its display in notebooks."""

from __future__ import annotations

from npusim.numbers import variants
from npusim.reports.notebook import notebook
from npusim.study import what_if as trying
from npusim.views.shown import with_views


class WhatIf(variants.WhatIf):
    __doc__ = variants.WhatIf.__doc__

    def _repr_html_(self) -> str:
        """Return the table as HTML for a notebook."""
        return notebook.what_if(self)


what_if = with_views(WhatIf, trying.what_if)
what_if_result = with_views(WhatIf, trying.what_if_result)
