# family: memory
# tries: asks for more memory than the machine has, in one piece and in many
# witness: the verdict, the neighbour, the next submission
# %%
import torch
def causal_pattern(scores):
    kept = []
    while True:
        kept.append(torch.ones(2**24))
