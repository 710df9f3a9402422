# family: processes
# tries: starts a process past the library: clone, clone3, vfork, with new namespaces
# witness: processes below the server; a claim
# %%
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for number, arguments in ((56, (17, 0, 0, 0, 0)), (56, (0x10000000 | 17, 0, 0, 0, 0)), (57, ()), (58, ())):
    made = libc.syscall(number, *arguments)
    if made == 0:
        os._exit(0)
    if made > 0:
        print("REACHED", number)
arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)
made = libc.syscall(435, arguments, ctypes.sizeof(arguments))
if made == 0:
    os._exit(0)
if made > 0:
    print("REACHED clone3")
