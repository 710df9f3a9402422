# family: python
# tries: imports modules that nothing has imported before
# %%
import wave, xml.dom.minidom, zipfile, email.message, statistics, calendar, decimal, sqlite3, html.parser, difflib, unittest.mock, torch.nn.utils.rnn, numpy.polynomial
import torch.distributions, torch.func, matplotlib.animation, matplotlib.colors, heapq
database = sqlite3.connect(":memory:").execute("select 1 + 1").fetchone()
def works(x):
    return database == (2,) and statistics.mean([1, 2, 3]) == 2 and float(torch.func.vmap(torch.sum)(x).sum()) == 6
