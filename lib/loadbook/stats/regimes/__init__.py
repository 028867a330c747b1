"""Two regimes of a curve over page size: a cost per request, a cost per byte, and the size where both are equal."""
