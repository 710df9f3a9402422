# family: signals
# tries: the calls beside kill: to threads, with data, by handle
# witness: the process
# control: yes
# %%
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
information = ctypes.create_string_buffer(b"\x09\0\0\0\0\0\0\0\xff\xff\xff\xff", 128)
libc.syscall(200, VICTIM, 9)
libc.syscall(234, VICTIM, VICTIM, 9)
libc.syscall(129, VICTIM, 9, information)
libc.syscall(297, VICTIM, VICTIM, 9, information)
handle = libc.syscall(434, VICTIM, 0)
libc.syscall(424, handle, 9, 0, 0)
