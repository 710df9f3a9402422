"""Speed, measured and never asserted: ``python -m tests.bench [NAME…]`` prints it and keeps it."""
