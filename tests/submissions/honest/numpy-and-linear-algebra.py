# family: numbers
# tries: eigenvalues, SVD, FFT, einsum, einops, float64, complex, a fused attention
# %%
import numpy as np, torch
from einops import rearrange
m = torch.randn(20, 20, dtype=torch.float64)
u, s, v = torch.linalg.svd(m)
rebuilt = torch.allclose(u @ torch.diag(s) @ v, m)
eigenvalues = torch.linalg.eigvals(m)
spectrum = np.linalg.eigvals(m.numpy())
fused = torch.nn.functional.scaled_dot_product_attention(*torch.randn(3, 1, 2, 5, 4), is_causal=True)
def works(x):
    return rebuilt and np.isclose(np.sort(np.abs(spectrum))[-1], float(eigenvalues.abs().max())).item() and rearrange(x, "a b -> b a").shape == (3, 2) and fused.shape == (1, 2, 5, 4)
