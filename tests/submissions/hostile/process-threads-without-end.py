# family: processes
# tries: starts threads with small stacks until the machine has none left
# witness: the next submission, the neighbour, processes that outlive it
# %%
import threading, time
threading.stack_size(32768)
started = 0
try:
    while started < 2000:
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        started += 1
except RuntimeError as error:
    print(started, error)
