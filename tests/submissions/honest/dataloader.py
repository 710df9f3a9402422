# family: data
# tries: a DataLoader without workers, a Dataset of its own, a sampler
# %%
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler
class Squares(Dataset):
    def __len__(self):
        return 10
    def __getitem__(self, i):
        return torch.tensor(i), torch.tensor(i * i)
batches = list(DataLoader(Squares(), batch_size=4, sampler=RandomSampler(Squares())))
def works(x):
    return sorted(int(i) for b in batches for i in b[1]) == [i * i for i in range(10)]
