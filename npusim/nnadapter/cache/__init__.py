"""The cache of compiled models: what is cached, the `.nnc` container, tokens, and the folder of cached files."""
