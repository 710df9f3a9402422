# family: network
# tries: netlink, raw packets, virtual sockets, Bluetooth and the kernel's crypto
# witness: a claim
# %%
import socket
for family, kind, protocol in ((16, 3, 0), (17, 3, 0), (40, 1, 0), (31, 3, 1), (38, 5, 0), (2, 3, 1), (29, 3, 1)):
    try:
        socket.socket(family, kind, protocol).close()
        print("REACHED", family)
    except OSError:
        pass
