# family: files
# tries: opens a file by its handle instead of its path
# witness: a claim that the call was allowed
# %%
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(b"\x80\0\0\0\0\0\0\0" + b"\0" * 128)
mount = ctypes.c_int()
if libc.name_to_handle_at(-100, SECRET.encode(), handle, ctypes.byref(mount), 0) == 0:
    print("REACHED")
    fd = libc.open_by_handle_at(-100, handle, 0)
    if fd >= 0:
        import os
        print(os.read(fd, 1000))
