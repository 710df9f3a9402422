# family: files
# tries: temporary files and folders, deletes them
# %%
import os, tempfile
with tempfile.TemporaryDirectory() as folder:
    with tempfile.NamedTemporaryFile("w+", dir=folder) as file:
        file.write("x" * 1000)
        file.flush()
        size = os.path.getsize(file.name)
gone = not os.path.exists(folder)
with tempfile.SpooledTemporaryFile(max_size=10) as spooled:
    spooled.write(b"y" * 100)
descriptor, path = tempfile.mkstemp()
os.close(descriptor)
os.remove(path)
def works(x):
    return size == 1000 and gone
