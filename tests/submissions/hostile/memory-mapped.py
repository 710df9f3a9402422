# family: memory
# tries: memory that isn't the heap's: shared maps, files in memory, numpy in threads
# witness: the verdict, the neighbour, a claim
# %%
import mmap, os, threading
maps, total = [], 0
try:
    while total < 2**33:
        maps.append(mmap.mmap(-1, 2**26))
        maps[-1].write(b"x" * 2**26)
        total += 2**26
    print("REACHED", total)
except (OSError, MemoryError, ValueError) as error:
    print(total, error)
