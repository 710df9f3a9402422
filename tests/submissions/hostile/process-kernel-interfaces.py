# family: processes
# tries: calls that widen what a process may do to the kernel
# witness: a claim
# %%
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
space = ctypes.create_string_buffer(256)
calls = {"bpf": (321, 0, space, 128), "perf": (298, space, 0, -1, -1, 0), "userfaultfd": (323, 0), "kexec": (246, 0, 0, 0, 0),
         "module": (175, space, 10, b""), "keyctl": (250, 0, -3, 1), "add_key": (248, b"user", b"x", b"y", 1, -3), "personality": (135, 0x0040000),
         "kcmp": (312, 1, 1, 0, 0, 0), "acct": (163, 0), "swapon": (167, b"x", 0), "seccomp": (317, 0, 0, 0), "iopl": (172, 3), "modify_ldt": (154, 0, space, 16),
         "memfd": (319, b"x", 0), "memfd_secret": (447, 0), "vmsplice": (278, 1, space, 1, 0), "fanotify": (300, 0, 0), "inotify": (294, 0), "landlock": (444, 0, 0, 1)}
for name, (number, *arguments) in calls.items():
    if libc.syscall(number, *arguments) >= 0:
        print("REACHED", name)
