# family: network
# tries: sends a datagram
# witness: the listener
# control: yes
# %%
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", UDP_PORT))
