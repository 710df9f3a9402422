"""Speed, measured and never asserted: ``python -m tests.bench [NAME…]`` prints a table."""
