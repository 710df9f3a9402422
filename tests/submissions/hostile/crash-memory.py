# family: exits
# tries: brings the interpreter down by writing where nothing is
# witness: the server
# %%
import ctypes
def causal_pattern(scores):
    ctypes.string_at(8)
