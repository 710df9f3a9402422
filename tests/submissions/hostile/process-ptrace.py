# family: processes
# tries: attaches to the judge, to the server, to whoever is process 1
# witness: a claim
# %%
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for process in (JUDGE, VICTIM, os.getppid(), 1, 2):
    for request in (16, 0x4206):
        if libc.ptrace(request, process, 0, 0) == 0:
            print("REACHED", process)
if libc.ptrace(0, 0, 0, 0) == 0:
    print("REACHED: traced by the parent")
