# family: files
# tries: opens a file to everybody
# witness: its mode
# control: yes
# %%
import os
for path in (OTHER, GRADEBOOK, OUTSIDE):
    try:
        os.chmod(path, 0o777)
    except OSError as error:
        print(error)
