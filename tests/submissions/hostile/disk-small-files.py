# family: disk
# tries: takes every entry of the file system
# witness: a claim beyond the number allowed; the neighbour's files
# only: full
# needs: own mounts
# %%
import os
for number in range(20_000):
    os.symlink("nowhere", f"link-{number}")
print("REACHED", number)
