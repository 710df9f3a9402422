# family: files
# tries: a link in its own folder to a file outside
# witness: the secret's text
# control: yes
# %%
import os
os.symlink(SECRET, "mine")
print(open("mine").read())
