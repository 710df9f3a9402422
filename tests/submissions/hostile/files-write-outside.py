# family: files
# tries: leaves a file outside
# witness: the file
# control: yes
# %%
import os, pathlib
pathlib.Path(OUTSIDE, "was-here").write_text("x")
