# family: network
# tries: fetches a page, through a name and through a proxy
# witness: the listener
# control: yes
# %%
import os, urllib.request
os.environ["http_proxy"] = f"http://127.0.0.1:{PORT}"
for url in (f"http://localhost:{PORT}/", "http://answers.invalid/"):
    try:
        urllib.request.urlopen(url, timeout=1)
    except OSError as error:
        print(error)
