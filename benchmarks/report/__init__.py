"""All benchmarks in one run, one file of figures, and the page with tables and pictures that is made from it."""
