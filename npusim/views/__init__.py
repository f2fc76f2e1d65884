"""Results that show themselves: figures, tables in a notebook, what-if.

The rooms below make results that are data alone. The public functions give them back as the classes of this room,
which are the same data and know who shows it.
"""
