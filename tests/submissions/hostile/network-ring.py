# family: network
# tries: goes around the filter with io_uring
# witness: a claim
# %%
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
parameters = ctypes.create_string_buffer(256)
if libc.syscall(425, 8, parameters) >= 0:
    print("REACHED")
