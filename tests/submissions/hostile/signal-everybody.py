# family: signals
# tries: whether it may signal the judge, the server, its group, everybody (with a signal that does nothing)
# witness: a claim
# %%
import os
for process in (JUDGE, os.getppid(), 1, 2, -1, 0, -os.getpgrp()):
    try:
        os.kill(process, 0)
        print("REACHED", process)
    except OSError:
        pass
