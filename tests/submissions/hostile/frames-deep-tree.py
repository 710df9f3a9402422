# family: frames
# tries: a tree nested deeper than a parser goes, or with more leaves than fit
# witness: the verdict, the judge
# elsewhere: no, it attacks our wire format
# %%
import os, struct
def frame(tree):
    body = struct.pack(">I", len(tree)) + tree
    return struct.pack(">Q", len(body)) + body
def causal_pattern(scores):
    os.write(3, frame(b"[" * 100_000 + b"]" * 100_000))
    return scores
