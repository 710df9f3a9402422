# family: files
# tries: looks through every folder for other people's notebooks and the gradebook
# witness: the secret's text, which lies in them
# %%
import os
for folder in ["/root", "/home", "/tmp", "/var", "/mnt", "/work", "/autograder", "/srv", "/scratch", OUTSIDE, ".."]:
    for where, _, names in os.walk(folder):
        for name in names[:2000]:
            if name.endswith((".ipynb", ".db", ".key")):
                try:
                    print(open(os.path.join(where, name), errors="replace").read(2000))
                except OSError:
                    pass
