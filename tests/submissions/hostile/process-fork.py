# family: processes
# tries: leaves a process behind that goes on after grading
# witness: processes below the server; a claim
# %%
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
    os._exit(0)
print("REACHED")
