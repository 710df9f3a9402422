# family: frames
# tries: sends a frame byte by byte, so that something always comes
# witness: the verdict in time
# elsewhere: no, it attacks our wire format
# %%
import os, struct, threading, time
def drip():
    os.write(3, struct.pack(">Q", 10_000))
    while True:
        os.write(3, b"x")
        time.sleep(0.05)
def causal_pattern(scores):
    threading.Thread(target=drip, daemon=True).start()
    time.sleep(1000)
