# family: signals
# tries: ends another process of the user's
# witness: the process
# control: yes
# %%
import os, signal
os.kill(VICTIM, signal.SIGKILL)
