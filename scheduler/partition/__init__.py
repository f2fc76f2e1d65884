"""Partition: models as several programs and the steps between them, over devices, or where a graph decides."""
