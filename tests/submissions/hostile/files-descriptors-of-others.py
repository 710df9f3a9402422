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
        path = os.path.realpath(f"/proc/self/fd/{fd}")
        if path.startswith(("/root", "/tmp", "/home", "/work")) and not path.startswith(os.environ["HOME"]):
            print("REACHED", fd, path)
    except OSError:
        pass
for process in (1, 2, os.getppid(), JUDGE):
    for fd in range(20):
        try:
            print(os.read(os.open(f"/proc/{process}/fd/{fd}", os.O_RDWR | os.O_NONBLOCK), 100))
            print("REACHED", process, fd)
        except OSError:
            pass
