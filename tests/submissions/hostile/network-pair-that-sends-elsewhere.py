# family: network
# tries: makes a pair of datagram sockets, which it may, and sends from one to another address
# witness: the listener; a claim
# %%
import socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        ours.sendto(b"hello", UNIX + ".datagrams")
        print("REACHED")
    except OSError as error:
        print(error)
stream, other = socket.socketpair()
stream.sendto(b"x", UNIX)
