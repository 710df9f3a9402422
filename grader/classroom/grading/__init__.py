"""A batch of strangers' notebooks, from what an LMS exports to ``grades.csv``.

intake → store → one notebook at a time in a sandbox → store → reports, all from the store.
"""
