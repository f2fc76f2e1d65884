"""The block engine: output blocks of micro-blocks that take turns with an output stage (Ethos-U)."""
