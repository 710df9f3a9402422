# family: training
# tries: trains a few steps with Adam, a scheduler and gradient clipping
# %%
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
x = torch.randn(64, 4)
losses = []
for _ in range(20):
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    losses.append(float(loss))
def works(x):
    return losses[-1] < losses[0]
