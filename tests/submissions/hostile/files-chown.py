# family: files
# tries: takes a file over
# witness: its owner
# %%
import os
for path in (OTHER, OUTSIDE):
    try:
        os.chown(path, 12345, 12345)
    except OSError as error:
        print(error)
