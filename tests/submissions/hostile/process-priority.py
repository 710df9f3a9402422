# family: limits
# tries: takes the processor from everybody else
# witness: a claim
# %%
import os
attempts = [lambda: os.nice(-10), lambda: os.setpriority(os.PRIO_PROCESS, 0, -10), lambda: os.sched_setaffinity(0, {0}),
            lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))]
for attempt in attempts:
    try:
        attempt()
        print("REACHED")
    except OSError:
        pass
