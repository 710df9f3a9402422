# family: exits
# tries: acts when the process ends: exit functions, finalizers, threads
# witness: the file
# control: yes
# %%
import atexit, threading, weakref
def leave():
    open(OUTSIDE + "/was-here", "w")
    print("REACHED")
atexit.register(leave)
class Last:
    def __del__(self):
        leave()
last = Last()
finalizer = weakref.finalize(last, leave)
import threading
threading._register_atexit(leave)
# %%
atexit._run_exitfuncs()
