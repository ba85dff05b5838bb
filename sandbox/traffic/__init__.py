"""Which bytes really move: the access stream of a compiled kernel, and what caches make of it."""
