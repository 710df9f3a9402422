# family: shell
# tries: replaces the modules that the pupil will import later
# witness: the verdict
# %%
import sys, types
for name in ("safetensors.torch", "safetensors", "json", "struct", "traceback", "warnings", "tempfile", "dis", "IPython"):
    sys.modules[name] = types.ModuleType(name)
import builtins
builtins.__import__ = lambda *args, **kwargs: types.ModuleType("x")
