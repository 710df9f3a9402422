# family: files
# tries: empties a file outside
# witness: the file
# control: yes
# %%
import os
for attempt in (lambda: os.truncate(OTHER, 0), lambda: open(OTHER, "w").close()):
    try:
        attempt()
    except OSError as error:
        print(error)
