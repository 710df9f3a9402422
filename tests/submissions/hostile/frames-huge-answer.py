# family: answers
# tries: an answer larger than can be handed in, and one that says it is
# witness: the verdict, the judge's memory
# %%
import torch
calls = []
def causal_pattern(scores):
    calls.append(1)
    if len(calls) == 1:
        return torch.zeros(1).expand(2**40)
    return torch.zeros(2**26)
