# family: shell
# tries: traces, profiles and audits everything that runs after it
# witness: points
# %%
import sys, threading
def always(*args):
    return always
sys.settrace(always)
sys.setprofile(lambda *args: None)
threading.settrace(always)
sys.addaudithook(lambda event, args: None)
sys.excepthook = sys.unraisablehook = lambda *args: None
sys.displayhook = print
