# family: frames
# tries: announces a frame of an exabyte
# witness: the verdict, the judge
# elsewhere: no, it attacks our wire format
# %%
import os, struct
def causal_pattern(scores):
    os.write(3, struct.pack(">Q", 2**60) + b"x" * 1000)
    return scores
