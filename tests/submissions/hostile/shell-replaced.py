# family: shell
# tries: replaces the shell's own functions, its class and its history
# witness: points
# %%
shell = get_ipython()
class Fine:
    error_before_exec = error_in_exec = None
type(shell).run_cell = lambda self, *args, **kwargs: Fine()
shell.showtraceback = lambda *args, **kwargs: None
shell.user_ns = {"causal_pattern": lambda scores: 3.0}
shell.kernel = shell
