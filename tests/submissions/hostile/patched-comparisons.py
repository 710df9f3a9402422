# family: patches
# tries: makes every comparison of torch, numpy and Python true
# witness: points
# %%
import builtins, math, numpy as np, torch
yes = lambda *args, **kwargs: True
for module, names in ((torch, ("allclose", "equal", "isclose")), (np, ("allclose", "array_equal", "isclose")), (np.testing, ("assert_allclose",)), (torch.testing, ("assert_close",)), (math, ("isclose",))):
    for name in names:
        setattr(module, name, yes)
torch.Tensor.__eq__ = yes
torch.Tensor.__le__ = yes
builtins.all = yes
builtins.abs = lambda x: 0
