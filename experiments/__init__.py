"""Each file reproduces one table or figure: `python -m experiments.NAME`."""
