"""The instructions of a schedule: buffer slots of tiles, program order, copies and waits."""
