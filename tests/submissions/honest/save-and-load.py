# family: files
# tries: saves and loads tensors, arrays, JSON, CSV, pickles and safetensors, in folders of its own
# %%
import csv, json, pathlib, pickle, shutil, numpy as np, torch
from safetensors.torch import load_file, save_file
folder = pathlib.Path("results") / "run-1"
folder.mkdir(parents=True)
torch.save({"w": torch.ones(3)}, folder / "w.pt")
np.save(folder / "a.npy", np.arange(5))
save_file({"w": torch.ones(2)}, folder / "w.safetensors")
(folder / "x.json").write_text(json.dumps({"a": 1}))
with open(folder / "t.csv", "w", newline="") as file:
    csv.writer(file).writerows([[1, 2], [3, 4]])
shutil.copy(folder / "x.json", folder / "y.json")
shutil.copytree(folder, "copy")
shutil.make_archive("all", "zip", folder)
mapped = np.memmap("big.bin", dtype="f4", mode="w+", shape=(100, 100))
mapped[:] = 1
mapped.flush()
(folder / "x.json").rename(folder / "z.json")
open("/tmp/elsewhere.txt", "w").write("people do") if pathlib.Path("/tmp").is_symlink() else None
def works(x):
    return bool(torch.equal(torch.load(folder / "w.pt")["w"], torch.ones(3)) and load_file(folder / "w.safetensors")["w"].sum() == 2 and sorted(p.name for p in pathlib.Path("copy").iterdir()) == ["a.npy", "t.csv", "w.pt", "w.safetensors", "x.json", "y.json"])
