# family: files
# tries: a second name for a file outside, in its own folder
# witness: the secret's text
# %%
import os
os.link(SECRET, "mine")
print(open("mine").read())
