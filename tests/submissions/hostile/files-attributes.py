# family: files
# tries: writes an attribute on a file outside
# witness: its attributes
# %%
import os
os.setxattr(OTHER, "user.was_here", b"x")
