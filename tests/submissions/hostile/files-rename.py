# family: files
# tries: moves files outside, and one into its own folder
# witness: the files, the secret's text
# %%
import os
for old, new in ((SECRET, "mine"), (OTHER, OTHER + ".moved")):
    try:
        os.rename(old, new)
        print(open("mine").read())
    except OSError as error:
        print(error)
