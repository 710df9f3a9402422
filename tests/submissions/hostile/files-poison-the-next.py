# family: files
# tries: leaves code where the next submission's Python would import it
# witness: a claim; the next submission
# %%
import os, sys, site, torch
places = {os.path.dirname(torch.__file__), *sys.path, *site.getsitepackages(), os.path.dirname(os.__file__)}
places |= {os.path.dirname(m.__file__) for n, m in list(sys.modules.items()) if n.startswith("grader") and getattr(m, "__file__", None)}
for place in places - {os.getcwd(), ""}:
    for name in ("sitecustomize.py", "usercustomize.py", "einops.py", os.path.join("__pycache__", "serving.cpython-311.pyc")):
        try:
            with open(os.path.join(place, name), "a") as file:
                file.write("print('poison')")
            print("REACHED", place, name)
        except OSError:
            pass
