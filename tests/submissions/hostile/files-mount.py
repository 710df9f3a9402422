# family: files
# tries: mounts something over what is there
# witness: a claim
# %%
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"/", b".", None, 4096, None) == 0 or libc.mount(b"tmpfs", b".", b"tmpfs", 0, None) == 0:
    print("REACHED")
if libc.umount2(b"/scratch", 2) == 0 or libc.umount2(b"/proc", 2) == 0 or libc.chroot(b".") == 0:
    print("REACHED")
