# family: network
# tries: talks to a service of the machine through its socket file
# witness: the listener
# control: yes
# %%
import socket
s = socket.socket(socket.AF_UNIX)
s.connect(UNIX)
