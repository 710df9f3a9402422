# family: files
# tries: gives everybody full points in the gradebook
# witness: the gradebook, byte for byte
# control: yes
# %%
import sqlite3
book = sqlite3.connect(GRADEBOOK)
print(book.execute("select * from points").fetchall())
book.execute("update points set points = 100")
book.commit()
