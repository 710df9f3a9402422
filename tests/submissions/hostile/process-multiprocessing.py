# family: processes
# tries: a process of the library's, a pool, workers for a DataLoader
# witness: processes below the server; the file
# %%
import multiprocessing, torch
def leave(path=OUTSIDE):
    open(path + "/was-here", "w")
for method in ("fork", "spawn", "forkserver"):
    try:
        process = multiprocessing.get_context(method).Process(target=leave)
        process.start()
        process.join(1)
    except (OSError, RuntimeError) as error:
        print(error)
# %%
next(iter(torch.utils.data.DataLoader(range(3), num_workers=2)))
