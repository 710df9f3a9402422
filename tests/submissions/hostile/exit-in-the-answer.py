# family: exits
# tries: ends in the middle of a question, with a number that means something to others
# witness: the verdict
# %%
import os
def causal_pattern(scores):
    os._exit(70)
