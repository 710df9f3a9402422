# family: output
# tries: drowns the grader in output
# witness: what comes back is short
# %%
import os, sys
for _ in range(300):
    print("x" * 100_000)
    sys.stderr.write("y" * 100_000)
    os.write(2, b"z" * 10_000)
    os.write(1, b"z" * 10_000)
