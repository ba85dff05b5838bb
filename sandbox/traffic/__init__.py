"""Which bytes really move: the access stream of a compiled kernel, and what caches make of it."""

WRONG = "it is wrong"  # so begins the reason where what cannot be traced gives a wrong answer
