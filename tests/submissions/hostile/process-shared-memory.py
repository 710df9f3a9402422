# family: shared memory
# tries: leaves memory that outlives it: System V, POSIX, message queues
# witness: a claim
# %%
import ctypes
from multiprocessing import shared_memory
libc = ctypes.CDLL(None, use_errno=True)
if libc.shmget(12345, 4096, 0o1666) >= 0 or libc.semget(12345, 1, 0o1666) >= 0 or libc.msgget(12345, 0o1666) >= 0:
    print("REACHED")
open("/dev/shm/was-here", "w").close()
# %%
shared_memory.SharedMemory("was-here", create=True, size=100)
print("REACHED")
