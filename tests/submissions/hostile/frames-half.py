# family: frames
# tries: begins a frame and falls silent
# witness: the verdict in time
# elsewhere: no, it attacks our wire format
# %%
import os, struct, time
def causal_pattern(scores):
    os.write(3, struct.pack(">Q", 1000) + b"x" * 500)
    while True:
        time.sleep(1)
