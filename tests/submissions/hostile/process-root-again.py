# family: privileges
# tries: becomes another user, gets capabilities back, turns off what holds it
# witness: a claim
# %%
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, arguments in (("setresuid", (12345,) * 3), ("setresgid", (12345,) * 3), ("setgroups", ([4],))):
    try:
        getattr(os, name)(*arguments)
        print("REACHED", name)
    except OSError:
        pass
for option, value in ((1, 0), (4, 1), (38, 0), (22, 0), (47, 2), (36, 1), (28, 0), (0x59616D61, -1)):
    if libc.prctl(option, value, 0, 0, 0) == 0:
        print("REACHED prctl", option)
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
if libc.capset(header, data) == 0:
    print("REACHED capset")
