"""The public result classes, with methods for figures, notebook tables and what-if.

Lower packages create results that are plain data. The public functions return them as the classes of this package,
which have the same fields and add the methods that show them.
"""
