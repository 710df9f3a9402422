# family: descriptors
# tries: opens the files that other processes hold, and those left open by whoever started it
# witness: the secret's text; a claim
# %%
import os
for fd in range(4, 200):
    try:
        os.fstat(fd)
    except OSError:
        continue
    try:
        if os.path.realpath(f"/proc/self/fd/{fd}").startswith(("/root", "/tmp", "/home", "/work")):
            print("REACHED", fd)
    except OSError:
        pass
for process in (1, 2, os.getppid(), JUDGE):
    for fd in range(20):
        try:
            print(os.read(os.open(f"/proc/{process}/fd/{fd}", os.O_RDWR | os.O_NONBLOCK), 100))
            print("REACHED", process, fd)
        except OSError:
            pass
