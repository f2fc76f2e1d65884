"""The instructions of a schedule: slots of tiles, program order, copies and waits."""
