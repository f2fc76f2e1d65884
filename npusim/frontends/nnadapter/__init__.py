"""The NNAdapter front end: models built by calls of its API, their types, and their conversion to graphs."""
