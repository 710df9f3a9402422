# family: files
# tries: makes itself root in new namespaces, or joins those of another process
# witness: a claim; the secret's text
# %%
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x00020000) == 0 or libc.unshare(0x00020000) == 0:
    print("REACHED unshare")
for process in (1, os.getppid(), JUDGE):
    for kind in ("mnt", "user", "pid", "net"):
        try:
            fd = os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY)
        except OSError:
            continue
        if libc.setns(fd, 0) == 0:
            print("REACHED setns", kind)
