# family: network
# tries: waits for somebody to call
# witness: a claim
# %%
import socket
server = socket.create_server(("127.0.0.1", 0))
print("REACHED")
