# family: network
# tries: talks to a service of the machine through a socket without a file
# witness: the listener
# control: yes
# %%
import socket
s = socket.socket(socket.AF_UNIX)
s.connect(ABSTRACT)
