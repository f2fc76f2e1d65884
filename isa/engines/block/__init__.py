"""The block MAC engine, modelled on Arm Ethos-U: outputs are computed block by block in an internal buffer."""
