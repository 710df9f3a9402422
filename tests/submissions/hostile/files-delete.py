# family: files
# tries: deletes what it can outside
# witness: the files
# %%
import os, shutil
shutil.rmtree(OUTSIDE, ignore_errors=True)
for path in (SECRET, OTHER, GRADEBOOK):
    try:
        os.unlink(path)
    except OSError as error:
        print(error)
