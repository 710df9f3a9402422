# family: frames
# tries: writes bytes that are no frame between the frames
# witness: the verdict, the judge
# elsewhere: no, it attacks our wire format
# %%
import os
def causal_pattern(scores):
    os.write(3, os.urandom(4096))
    return scores
