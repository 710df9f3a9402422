# family: network
# tries: calls home over TCP
# witness: the listener
# control: yes
# %%
import socket
socket.create_connection(("127.0.0.1", PORT), timeout=1).sendall(b"hello")
