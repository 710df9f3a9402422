# family: signals
# tries: has the kernel send a deadly signal to whom it names as the owner of a pipe
# witness: the process; a claim
# control: yes
# %%
import ctypes, fcntl, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for target in (VICTIM, JUDGE if False else VICTIM, 2):
    ours, theirs = socket.socketpair()
    for command, value in ((10, 9), (8, target)):
        try:
            fcntl.fcntl(ours, command, value)
            if target != VICTIM:
                print("REACHED")
        except OSError as error:
            print(error)
    try:
        fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        theirs.send(b"x")
    except OSError as error:
        print(error)
