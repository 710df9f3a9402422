# family: processes
# tries: forks as fast as it can
# witness: processes below the server
# %%
import os
for _ in range(2000):
    try:
        os.fork()
    except OSError:
        pass
